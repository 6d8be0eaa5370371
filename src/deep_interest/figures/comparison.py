"""The table of a dataset as a picture: GAUC of each model, with BaseModel and the oracle to measure it by."""

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.figures.chart import Chart, Line, Panel, Points, Rule


def results_chart(results: pd.DataFrame, *, title: str, base: str = "base") -> Chart:
    """Dot plot of GAUC by model, the first row of the table on top.

    A dot is the mean over seeds, its bar ± one standard deviation over seeds, the number at the right its value.
    A vertical line marks the base model's GAUC, a dashed one the oracle's, where the table has them.

    Args:
        results: the table of `evaluation.comparison.compare`, or the same read back from CSV.
        title: heading of the picture.
        base: key of the model the others are compared with.
    """
    models = results[results["model"] != ORACLE]
    lines = [
        Rule(row.gauc, f"{row.name} {row.gauc:.4f}", dashed=key == ORACLE, colour=1 if key == ORACLE else -1)
        for key in (base, ORACLE)
        for row in results[results["model"] == key].itertuples()
    ]
    several = (models["seeds"] > 1).any()
    dots = Points(
        models["gauc"].tolist(),
        list(range(len(models))),
        "mean ± deviation over seeds" if several else "one seed",
        error=models["gauc_std"].fillna(0).tolist() if several else None,
        text=[f"{row.name}: {row.gauc:.4f}" for row in models.itertuples()],
    )
    panel = Panel(
        [*lines, dots], x="GAUC", y_ticks=models["name"].tolist(), right=[f"{value:.4f}" for value in models["gauc"]],
        downwards=True,
    )  # fmt: skip
    return Chart(title, [panel], height=70 + 30 * len(models))


def seeds_chart(results: pd.DataFrame, predictions_gauc: pd.DataFrame, *, title: str) -> Chart:
    """GAUC of every single seed by model: how far apart two fits of one row are.

    Args:
        results: the table of `evaluation.comparison.compare`.
        predictions_gauc: ``model``, ``seed``, ``gauc``, a row for each fit.
        title: heading.
    """
    models = results[results["model"] != ORACLE]
    place = {key: number for number, key in enumerate(models["model"])}
    known = predictions_gauc[predictions_gauc["model"].isin(place)]
    dots = Points(
        known["gauc"].tolist(), [place[key] for key in known["model"]], "one seed each",
        text=[f"{row.model}, seed {row.seed}: {row.gauc:.4f}" for row in known.itertuples()],
    )  # fmt: skip
    right = [f"± {value:.4f}" if value == value else "" for value in models["gauc_std"]]  # noqa: PLR0124
    panel = Panel([dots], x="GAUC", y_ticks=models["name"].tolist(), right=right, downwards=True)
    return Chart(
        title, [panel], height=70 + 30 * len(models),
        note="Every dot is one fit. Two rows whose dots overlap are not told apart by one seed each.",
    )  # fmt: skip


def speed_chart(results: pd.DataFrame, *, title: str) -> Chart:
    """GAUC against training speed, a point a model; up and to the right is better."""
    known = results[results["samples_per_second"] > 0]
    marks = [
        Points([row.samples_per_second], [row.gauc], str(row.name), colour=number, symbol=number // 8,
               text=[f"{row.name}: GAUC {row.gauc:.4f}, {row.samples_per_second:,.0f} samples/s"])
        for number, row in enumerate(known.itertuples(index=False))
    ]  # fmt: skip
    panel = Panel(marks, x="training samples a second", y="GAUC", x_log=True)
    return Chart(
        title, [panel], height=420,
        note="Speed is that of the machine at hand, evaluation not counted; further up and further right is better.",
    )  # fmt: skip


def groups_chart(groups: dict[str, pd.DataFrame], *, title: str) -> Chart:
    """GAUC by group of test samples.

    Args:
        groups: a panel each, by what the groups are of; ``name``, ``group``, ``gauc``, ``samples``, a row for each row of
            the table and group.
        title: heading.
    """
    panels = []
    for axis, table in groups.items():
        labels = list(dict.fromkeys(table["group"]))
        sizes = table.drop_duplicates("group").set_index("group")["samples"]
        lines = [
            Line(
                [labels.index(group) for group in rows["group"]],
                rows["gauc"].tolist(),
                name,
                colour=number,
                markers=True,
            )
            for number, (name, rows) in enumerate(table.groupby("name", sort=False))
        ]
        ticks = [f"{label} ({sizes[label]:,})" for label in labels]
        panels.append(Panel(lines, title=f"By {axis}", x=f"{axis} (test samples)", y="GAUC", x_ticks=ticks))
    return Chart(
        title, panels, columns=2,
        note="Groups are quarters of the test samples. A group of few samples moves by chance more than the others.",
    )  # fmt: skip


def calibration_chart(curves: dict[str, pd.DataFrame], *, title: str) -> Chart:
    """Share of clicks by predicted CTR.

    Args:
        curves: by the row's name: ``predicted``, ``observed``, a row for each tenth of the samples.
        title: heading.
    """
    most = max(float(np.nanmax(table[["predicted", "observed"]].to_numpy())) for table in curves.values())
    marks = [Line([0, most], [0, most], "as predicted", colour=-1, dashed=True)]
    marks += [
        Line(table["predicted"].tolist(), table["observed"].tolist(), name, colour=number, markers=True)
        for number, (name, table) in enumerate(curves.items())
    ]
    errors = {f"calibration error, {name}": float(table["error"].iloc[0]) for name, table in curves.items()}
    return Chart(
        title, [Panel(marks, x="mean predicted CTR of a tenth", y="share of positives")], numbers=errors, height=400,
        note="A point is a tenth of the test samples by predicted CTR. On the line, predictions are right on average; with "
        "sampled negatives they are right for the sampled mix, not for a live shop.",
    )  # fmt: skip
