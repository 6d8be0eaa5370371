"""The picture of a backtest: GAUC by day, and what each way costs."""

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def backtest_figure(results: pd.DataFrame, summary: pd.DataFrame, refused: dict[str, str]) -> "Figure":
    """GAUC of every way by day beside its mean seconds a day.

    Args:
        results: ``day, way, gauc, …``, a row for each day, way and seed.
        summary: ``way, seconds, …``, a row for each way.
        refused: days that were left out, with the reason.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 1])
    mean = results.groupby(["day", "way"])["gauc"].mean().unstack()
    days = sorted({*mean.index, *(day for day in refused if day >= mean.index.min())})
    for number, way in enumerate(summary["way"]):
        left.plot(
            [days.index(day) for day in mean.index], mean[way], marker="o", markersize=4, color=f"C{number}",
            label=way.replace("_", " "),
        )  # fmt: skip
    for day in refused:
        if day in days:
            left.axvspan(days.index(day) - 0.4, days.index(day) + 0.4, color="0.85")
            left.annotate(
                "refused", (days.index(day), left.get_ylim()[0]), ha="center", va="bottom", fontsize=8, rotation=90
            )  # fmt: skip
    left.set_xticks(range(len(days)), [day[5:] for day in days], rotation=60)
    left.set_ylabel("GAUC")
    left.set_title("On each day, trained on the days before it")
    left.legend(fontsize=8)
    names = [way.replace("_", "\n") for way in summary["way"]]
    right.bar(names, summary["seconds"], color=[f"C{number}" for number in range(len(names))])
    right.tick_params(axis="x", labelsize=7)
    right.set_title("Training seconds a day")
    return figure
