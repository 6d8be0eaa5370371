"""The table of a leaderboard: every model compared with BaseModel, the best simple model and the best model, and what it cost."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ORACLE, ModelRuns, compare
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.smallest_model import best_on_validation

BEST_COLUMNS = ("difference", "difference_low", "difference_high", "p_value", "p_holm", "interval_note")
COST_COLUMNS = (
    "trials", "pruned", "best_trial_gauc", "first_trial_gauc", "search_processor_seconds", "refit_seconds"
)  # fmt: skip


def leaderboard_table(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    found: Mapping[str, Mapping[str, Any]],
    *,
    simple: Collection[str],
    base: str = "base",
    minimum: EvaluationParameters | None = None,
) -> pd.DataFrame:
    """Return one row per model with its metrics, three comparisons and the cost of its search.

    The best simple model and the best model are those with the highest validation GAUC, so that the test set chooses nothing.

    Args:
        test: test samples, see `evaluation.comparison.compare`.
        runs: fits with the best options by model key.
        found: results of the searches by model key, `leaderboard.result_of`.
        simple: keys of the simple models.
        base: key of BaseModel.
        minimum: what the test set needs before there are intervals.

    Returns:
        The columns of `evaluation.comparison.compare`, where ``second`` is the best simple model; ``best`` with the columns ``best_*``,
        the same comparison with the best model; and the columns of `COST_COLUMNS`.
    """
    best_simple = best_on_validation({key: run for key, run in runs.items() if key in simple})
    best = best_on_validation(runs)
    results = compare(test, runs, base=base, second=best_simple, minimum=minimum)
    if best is not None:
        against_best = compare(test, runs, base=best, second=best_simple, minimum=minimum)
        for column in BEST_COLUMNS:
            results[f"best_{column}"] = against_best[column]
    results["best"] = best
    costs = pd.DataFrame([_cost(key, runs, found) for key in results["model"]], columns=list(COST_COLUMNS))
    return results.join(costs)


def _cost(key: str, runs: Mapping[str, ModelRuns], found: Mapping[str, Mapping[str, Any]]) -> list[float]:
    if key == ORACLE:
        return [np.nan] * len(COST_COLUMNS)
    result = found[key]
    names = ("finished", "pruned", "validation_gauc", "first_gauc", "processor_seconds")
    searched = [np.nan if result[name] is None else result[name] for name in names]
    return [*searched, float(np.nansum(runs[key].train_seconds))]


def as_recipe(recipe: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a recipe with the best options of every model, as plain values for a configuration file.

    Args:
        recipe: a recipe as plain values; it may extend another one. ``searched`` is a list, if it has one.
        found: results of the searches by model key.
    """
    models = {key: dict(blocks) for key, blocks in recipe.get("models", {}).items()}
    for key, result in found.items():
        for name, value in result["values"].items():
            block, option = name.split(".", 1)
            options = dict(models.setdefault(key, {}).get(block, {}))
            models[key][block] = options | {option: list(value) if isinstance(value, tuple) else value}
    searched = sorted(
        {*recipe.get("searched", ()), *(key for key, result in found.items() if result["values"])}
    )
    return {**recipe, "searched": True if searched == sorted(models) else searched, "models": models}
