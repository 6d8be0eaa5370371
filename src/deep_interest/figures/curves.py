"""Learning curves by epoch: train loss, test loss and test AUC of several rows (DIN Fig. 4)."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

PANELS = {
    "train_loss": "Train loss",
    "test_loss": "Test loss",
    "test_auc": "Test AUC",
    "test_gauc": "Test GAUC",
}
COLOURS = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#0072B2",
    "#F0E442",
)  # Okabe and Ito


def curves_figure(curves: Mapping[str, pd.DataFrame]) -> Figure:
    """One panel for each figure, one line for each row: the mean over its seeds, a band of one deviation around it.

    Args:
        curves: by the row's name; ``seed``, ``epoch`` and some of ``train_loss``, ``test_loss``, ``test_auc``,
            ``test_gauc``, a row for each seed and evaluation.
    """
    panels = [column for column in PANELS if any(column in table for table in curves.values())]
    figure = Figure(figsize=(3.6 * len(panels), 3.8), layout="constrained")
    for axes, column in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for (name, table), colour in zip(curves.items(), COLOURS, strict=False):
            if column in table:
                by_epoch = table.groupby("epoch")[column].agg(["mean", "std"])
                deviation = by_epoch["std"].fillna(0)
                axes.plot(by_epoch.index, by_epoch["mean"], color=colour, linewidth=1.8, label=name)
                axes.fill_between(
                    by_epoch.index, by_epoch["mean"] - deviation, by_epoch["mean"] + deviation, color=colour, alpha=0.15,
                    linewidth=0,
                )  # fmt: skip
        axes.set_title(PANELS[column], loc="left", fontsize=11)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#E5E5E5", linewidth=0.8)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
