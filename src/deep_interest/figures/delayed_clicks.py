"""The chart of the backtest of delayed clicks: what each choice costs, by day and over all nights."""

import pandas as pd

from deep_interest.figures.chart import Chart, Line, Panel, Points, VerticalLine

_PANELS = (
    ("logloss", "Log loss: lower is better"),
    ("gauc", "GAUC: higher is better"),
    ("calibration", "Predicted over observed CTR"),
)
_DIFFERENCE = "difference to final labels"


def delayed_clicks_chart(costs: pd.DataFrame, total: pd.DataFrame) -> Chart:
    """Draw the costs of each choice.

    Args:
        costs: columns ``day``, ``choice``, ``logloss_cost``, ``gauc_cost`` and ``calibration_cost``; one row per day and choice.
        total: one row per choice over all days, with ``logloss_low`` and ``logloss_high`` as well.
    """
    days, choices = list(costs["day"].unique()), list(costs["choice"].unique())
    panels = []
    for metric, title in _PANELS:
        values = costs.pivot(index="choice", columns="day", values=f"{metric}_cost")
        lines = [
            Line(list(range(len(days))), values.loc[choice, days].tolist(), choice, color=index, markers=True)
            for index, choice in enumerate(choices)
        ]
        panels.append(
            Panel(lines, title=title, x_label="day", y_label=_DIFFERENCE, x_ticks=[day[5:] for day in days])
        )
    total = total.set_index("choice").loc[choices]
    points = [
        Points([cost], [index], choice, color=index, error=[(high - low) / 2])
        for index, (choice, cost, low, high) in enumerate(
            zip(choices, total["logloss_cost"], total["logloss_low"], total["logloss_high"], strict=True)
        )
    ]
    panels.append(
        Panel(
            [VerticalLine(0, "no cost"), *points], title="Log loss over all nights, with 95 % intervals", x_label=_DIFFERENCE,
            y_ticks=choices, y_reversed=True,
        )
    )  # fmt: skip
    return Chart("What clicks cost that have not arrived", panels, columns=2)
