"""Charts of a leaderboard: expected best score by number of trials, importance of the options, accuracy and cost."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ORACLE
from deep_interest.figures.chart import PALETTE, Chart, HeatMap, Line, Panel, Points
from deep_interest.figures.tuning import option_label
from deep_interest.models.registry import MODELS

NAMED = len(PALETTE)  # models with a colour of their own
OTHERS = "other models"


def expected_best_chart(expected: pd.DataFrame, *, title: str) -> Chart:
    """Draw the expected best validation GAUC of each model by number of trials, and the rank of the best models.

    Args:
        expected: table of `tuning.expected_best.expected_best_table`.
        title: heading of the chart.
    """
    curves = expected.pivot(index="trials", columns="model", values="expected")
    final = curves.ffill().iloc[-1] if len(curves) else pd.Series(dtype=float)
    order = final.sort_values(ascending=False, kind="stable").index.tolist()
    named = {model: color for color, model in enumerate(order[:NAMED])}
    ranks = curves.ffill().rank(axis=1, ascending=False, method="first")
    others = [_curve(curves[model], OTHERS, -1) for model in reversed(order[NAMED:])]
    panels = [
        Panel(
            [*others, *(_curve(curves[model], MODELS[model].name, color) for model, color in named.items())],
            title="Expected best of so many trials", x_label="trials", y_label="validation GAUC",
        ),
        Panel(
            [_curve(ranks[model], MODELS[model].name, color) for model, color in named.items()],
            title="Rank among these models", x_label="trials", y_label="rank", y_reversed=True,
        ),
    ]  # fmt: skip
    return Chart(
        title, panels, columns=2, row_height=420,
        note=f"Mean over the orders in which a model's trials could have been run (Dodge et al. 2019; without replacement). The {len(named)} "
        "best models at the full budget have a colour. Lines that cross say that the order of two models depends on the budget. A pruned "
        "trial counts with its best evaluation before it was stopped.",
    )  # fmt: skip


def _curve(values: pd.Series, name: str, color: int) -> Line:
    known = values.dropna()
    return Line(known.index.tolist(), known.tolist(), name, color=color)


def importance_chart(found: Mapping[str, Mapping[str, Any]], *, title: str) -> Chart:
    """Draw the importance of each option for each model as a heat map.

    Args:
        found: results of the searches by model key, with the shares of the GAUC's variance under ``importance``.
        title: heading of the chart.
    """
    known = {model: result["importance"] for model, result in found.items() if result["importance"]}
    options = list(dict.fromkeys(name for shares in known.values() for name in shares))
    options.sort(key=lambda name: -sum(shares.get(name, 0.0) for shares in known.values()))
    models = list(reversed(known))
    rows = [[known[model].get(name, np.nan) for name in options] for model in models]
    labels = [option_label(name) for name in options]
    marks = [HeatMap(rows, "share of the variance")] if rows else []
    panel = Panel(marks, x_ticks=labels, y_ticks=[MODELS[model].name for model in models])
    return Chart(
        title, [panel], row_height=160 + 24 * len(models),
        note="Share of the variance of the validation GAUC over a model's complete trials that each option explains (fANOVA). Empty: the "
        "option is not searched for the model. Models with fewer than four complete trials are left out.",
    )  # fmt: skip


def cost_chart(results: pd.DataFrame, *, title: str) -> Chart:
    """Draw the GAUC on the test set against the processor time of the search.

    Args:
        results: table of `tuning.leaderboard_table.leaderboard_table`, or the same read back from CSV.
        title: heading of the chart.
    """
    models = results[(results["model"] != ORACLE) & (results["search_processor_seconds"] > 0)]
    minutes = models["search_processor_seconds"] / 60
    points = Points(
        minutes.tolist(), models["gauc"].tolist(), "tuned model", labels=models["name"].astype(str).tolist(),
        hover=[
            f"{row.name}: GAUC {row.gauc:.4f}, {minute:.1f} min"
            for row, minute in zip(models.itertuples(index=False), minutes, strict=True)
        ],
    )  # fmt: skip
    panel = Panel([points], x_label="processor time of the search (minutes)", y_label="GAUC", x_log=True)
    return Chart(
        title, [panel], row_height=520,
        note="All models have the same number of trials. Better models are further up, models that are cheaper to tune further left; models "
        "without options to tune are left out.",
    )  # fmt: skip
