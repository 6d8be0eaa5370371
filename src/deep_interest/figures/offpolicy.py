"""Charts of an off-policy evaluation: estimates and weights."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from deep_interest.figures.chart import Bars, Chart, Mark, Panel, Points, VerticalLine
from deep_interest.offpolicy.evaluation import ESTIMATORS


def estimates_chart(results: pd.DataFrame, checks: Mapping[str, Any], *, title: str) -> Chart:
    """Draw the estimates with their intervals, next to what the log earned.

    Args:
        results: `Evaluation.results`, or the same read back from CSV.
        checks: `Evaluation.checks`.
        title: heading of the chart.
    """
    first = results.iloc[0]
    marks: list[Mark] = [
        VerticalLine(float(first["logged"]), "the log"),
        Points(
            results["value"].tolist(), list(range(len(results))), "estimate", color=0,
            error=(0.5 * (results["high"] - results["low"])).tolist(),
            hover=[f"{ESTIMATORS[row.estimator]}: {row.value:.4g}" for row in results.itertuples()],
        ),
    ]  # fmt: skip
    if checks.get("target_reward") is not None:
        marks.append(VerticalLine(float(checks["target_reward"]), "its own log", color=1, dashed=True))
    names = [ESTIMATORS[key] for key in results["estimator"]]
    panel = Panel(marks, x_label="mean reward of an impression", y_ticks=names, y_reversed=True)
    refused = " The estimates are refused: see the page." if checks["refusals"] else ""
    return Chart(
        title, [panel], row_height=110 + 40 * len(names),
        note=f"95% intervals over users. The line is the mean reward of the log.{refused}",
    )  # fmt: skip


def weights_chart(weights: pd.DataFrame, *, title: str) -> Chart:
    """Draw the distribution of the weights, and which share of the weight each class has.

    Args:
        weights: columns ``weights`` (name of the class), ``rows`` and ``weight`` (shares).
        title: heading of the chart.
    """
    classes, places = weights["weights"].tolist(), list(range(len(weights)))
    panels = [
        Panel(
            [Bars(places, (100 * weights[column]).tolist(), name, color=color)],
            x_label=f"share {name} (%)", y_label="weight of an impression", y_ticks=classes, y_reversed=True,
        )
        for color, (column, name) in enumerate({"rows": "of the impressions", "weight": "of the weight"}.items())
    ]  # fmt: skip
    return Chart(
        title, panels, columns=2, row_height=120 + 36 * len(weights),
        note="Weight: probability under the evaluated version divided by that under the version that wrote the log. Few impressions with most of the "
        "weight make a poor estimate.",
    )  # fmt: skip
