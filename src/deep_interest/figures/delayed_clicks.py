"""The chart of the backtest of delayed clicks: what each choice costs, by day."""

import pandas as pd

from deep_interest.figures.chart import Chart, Line, Panel

_PANELS = (
    ("logloss", "Log loss above that of final labels"),
    ("gauc", "GAUC above that of final labels"),
    ("calibration", "Predicted over observed CTR"),
)


def delayed_clicks_chart(costs: pd.DataFrame) -> Chart:
    """Draw the costs of each choice by day.

    Args:
        costs: columns ``day``, ``choice``, ``logloss_cost``, ``gauc_cost`` and ``calibration``; one row per day and choice.
    """
    days, choices = list(costs["day"].unique()), list(costs["choice"].unique())
    panels = []
    for metric, title in _PANELS:
        column = metric if metric == "calibration" else f"{metric}_cost"
        values = costs.pivot(index="choice", columns="day", values=column)
        lines = [
            Line(list(range(len(days))), values.loc[choice, days].tolist(), choice, color=index, markers=True)
            for index, choice in enumerate(choices)
        ]
        panels.append(
            Panel(
                lines,
                title=title,
                x_label="day",
                y_label=title.split(" ")[0],
                x_ticks=[day[5:] for day in days],
            )
        )
    return Chart("Clicks that have not arrived: the cost of each choice", panels, columns=2)
