"""The table of a dataset as a picture: GAUC of each model, with BaseModel and the oracle to measure it by."""

import textwrap

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from deep_interest.evaluation.comparison import ORACLE

MODEL_COLOUR, BASE_COLOUR, ORACLE_COLOUR = "#0072B2", "#767676", "#D55E00"  # tell apart without colour vision


def results_figure(results: pd.DataFrame, *, title: str, base: str = "base") -> Figure:
    """Dot plot of GAUC by model, the first row of the table on top.

    A dot is the mean over seeds, its bar ± one standard deviation over seeds, the number at the right its value.
    A vertical line marks the base model's GAUC, a dashed one the oracle's, where the table has them.

    Args:
        results: the table of `evaluation.comparison.compare`, or the same read back from CSV.
        title: heading of the picture.
        base: key of the model the others are compared with.
    """
    models = results[results["model"] != ORACLE]
    figure = Figure(figsize=(7.5, 1.6 + 0.3 * len(models)), layout="constrained")
    axes = figure.add_subplot()
    _reference_line(axes, results, base, BASE_COLOUR, "-")
    _reference_line(axes, results, ORACLE, ORACLE_COLOUR, "--")
    axes.errorbar(
        models["gauc"],
        range(len(models)),
        xerr=models["gauc_std"].fillna(0),
        fmt="o",
        color=MODEL_COLOUR,
        markersize=6,
        elinewidth=2,
        label="mean ± deviation over seeds" if (models["seeds"] > 1).any() else "one seed",
    )
    _label_rows(axes, models)
    figure.suptitle(textwrap.fill(title, 70), x=0.01, ha="left", fontsize=12)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _reference_line(axes: Axes, results: pd.DataFrame, model: str, colour: str, style: str) -> None:
    for row in results[results["model"] == model].itertuples():
        axes.axvline(
            row.gauc,
            color=colour,
            linestyle=style,
            linewidth=1.2,
            zorder=0,
            label=f"{_short(row.name)} {row.gauc:.4f}",
        )


def _label_rows(axes: Axes, models: pd.DataFrame) -> None:
    """Names at the left, values at the right, light lines between, nothing else."""
    positions = range(len(models))
    axes.set_yticks(positions, [_short(name) for name in models["name"]])
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_xlabel("GAUC")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    values = axes.secondary_yaxis("right")
    values.set_yticks(positions, [f"{value:.4f}" for value in models["gauc"]])
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    for sided in (axes, values):
        sided.tick_params(axis="y", length=0)
        sided.spines[:].set_visible(False)
    axes.spines["bottom"].set_visible(True)


def _short(name: str) -> str:
    return textwrap.shorten(name, 34, placeholder=" …")
