"""The picture of a backtest: GAUC by day, and what each way costs."""

import pandas as pd

from deep_interest.figures.chart import Bars, Chart, Line, Panel, Rule


def backtest_chart(results: pd.DataFrame, summary: pd.DataFrame, refused: dict[str, str]) -> Chart:
    """GAUC of every way by day, and beside it its mean seconds a day.

    Args:
        results: ``day, way, gauc, …``, a row for each day, way and seed.
        summary: ``way, seconds, …``, a row for each way.
        refused: days that were left out, with the reason.
    """
    mean = results.groupby(["day", "strategy"])["gauc"].mean().unstack()
    days = sorted({*mean.index, *(day for day in refused if day >= mean.index.min())})
    at = [days.index(day) for day in mean.index]
    ways = list(summary["strategy"])
    lines = [
        Line(at, mean[way].tolist(), way.replace("_", " "), colour=number, markers=True)
        for number, way in enumerate(ways)
    ]
    rules = [Rule(days.index(day), f"{day} refused", dashed=True) for day in refused if day in days]
    by_day = Panel(
        [*lines, *rules], title="On each day, trained on the days before it", x="day", y="GAUC",
        x_ticks=[day[5:] for day in days],
    )  # fmt: skip
    cost = Panel(
        [Bars(list(range(len(ways))), summary["seconds"].tolist(), "seconds", lying=True)],
        title="Training seconds a day", x="seconds", y_ticks=[way.replace("_", " ") for way in ways],
    )  # fmt: skip
    return Chart("Ways of keeping a model fresh", [by_day, cost], columns=2)
