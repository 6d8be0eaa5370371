"""The chart of the backtest of delayed clicks: what each choice costs, by day."""

import pandas as pd

from deep_interest.figures.chart import Chart, Line, Panel

_PANELS = (
    ("logloss", "Log loss: lower is better", "log loss"),
    ("gauc", "GAUC: higher is better", "GAUC"),
    ("calibration", "Predicted over observed CTR", "predicted over observed CTR"),
)


def delayed_clicks_chart(costs: pd.DataFrame) -> Chart:
    """Draw the costs of each choice by day.

    Args:
        costs: columns ``day``, ``choice``, ``logloss_cost``, ``gauc_cost`` and ``calibration_cost``; one row per day and choice.
    """
    days, choices = list(costs["day"].unique()), list(costs["choice"].unique())
    panels = []
    for metric, title, label in _PANELS:
        values = costs.pivot(index="choice", columns="day", values=f"{metric}_cost")
        lines = [
            Line(list(range(len(days))), values.loc[choice, days].tolist(), choice, color=index, markers=True)
            for index, choice in enumerate(choices)
        ]
        panels.append(
            Panel(lines, title=title, x_label="day", y_label=f"{label}, difference to final labels", x_ticks=[day[5:] for day in days])
        )  # fmt: skip
    return Chart(
        "Clicks that have not arrived: difference of each choice to training on final labels",
        panels,
        columns=2,
    )
