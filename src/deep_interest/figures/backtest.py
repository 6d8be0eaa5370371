"""The chart of a backtest: GAUC by day and training time of each strategy."""

import pandas as pd

from deep_interest.figures.chart import Bars, Chart, Line, Panel, VerticalLine


def backtest_chart(results: pd.DataFrame, summary: pd.DataFrame, refused: dict[str, str]) -> Chart:
    """Draw the GAUC of every strategy by day, next to its mean training time per day.

    Args:
        results: columns ``day``, ``strategy``, ``gauc``, …; one row per day, strategy and seed.
        summary: columns ``strategy``, ``seconds``, …; one row per strategy.
        refused: reasons by day, of the days that were skipped.
    """
    mean = results.groupby(["day", "strategy"])["gauc"].mean().unstack()
    days = sorted({*mean.index, *(day for day in refused if day >= mean.index.min())})
    positions = [days.index(day) for day in mean.index]
    strategies = list(summary["strategy"])
    labels = [strategy.replace("_", " ") for strategy in strategies]
    lines = [
        Line(positions, mean[strategy].tolist(), label, color=index, markers=True)
        for index, (strategy, label) in enumerate(zip(strategies, labels, strict=True))
    ]
    skipped = [VerticalLine(days.index(day), f"{day} skipped", dashed=True) for day in refused if day in days]
    by_day = Panel(
        [*lines, *skipped], title="GAUC on each day, trained on the days before", x_label="day", y_label="GAUC",
        x_ticks=[day[5:] for day in days],
    )  # fmt: skip
    cost = Panel(
        [Bars(list(range(len(strategies))), summary["seconds"].tolist(), "training time")],
        title="Training time per day", x_label="seconds", y_ticks=labels,
    )  # fmt: skip
    return Chart("Backtest of retraining strategies", [by_day, cost], columns=2)
