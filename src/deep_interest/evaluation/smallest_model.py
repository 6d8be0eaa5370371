"""The smallest and the fastest model of a table that are not worse than the best one by a margin."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.evidence import EvaluationParameters, shortage
from deep_interest.evaluation.inferiority import LEVEL, Candidate, NonInferiority, non_inferiority_tests
from deep_interest.evaluation.metrics import per_user_auc
from deep_interest.evaluation.seed_variance import variance_over_seeds
from deep_interest.evaluation.significance import mean_over_seeds

REFERENCE, NOT_WORSE, NOT_SHOWN, NOT_CHEAPER = "best", "not worse", "not shown", "not cheaper"
COLUMNS = (
    "model", "name", "parameters", "bytes", "microseconds", "difference", "low", "high", "p_holm", "seeds", "verdict",
    "smallest", "fastest", "margin", "level",
)  # fmt: skip


@dataclass(frozen=True)
class ModelCost:
    """What a trained model costs when it scores.

    Attributes:
        parameters: number of trained parameters.
        bytes: size of all its parameters and tables.
        microseconds: time of scoring one test sample.
    """

    parameters: int
    bytes: int
    microseconds: float


def smallest_model_table(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    costs: Mapping[str, ModelCost],
    *,
    minimum: EvaluationParameters | None = None,
) -> pd.DataFrame:
    """Test which models are not worse than the best one, and name the cheapest of them.

    The best model is that of the highest validation GAUC. Each model that has fewer bytes or scores faster is tested for non-inferiority
    (`inferiority`), with Holm's correction over all of them, so that both choices hold at the level together.

    Args:
        test: one row per test sample: ``user`` (integer) and ``label``.
        runs: by model key.
        costs: by model key; models without one are not tested.
        minimum: what the test set needs before there are intervals; its ``margin`` is the loss in GAUC that does not count.

    Returns:
        `COLUMNS`, fewest bytes first: GAUC minus that of the best model, the ends of the interval of mass 1 - 2 level, the one-sided p-value of
        "worse by the margin" after Holm's correction; ``seeds``, False if one fit of the two models cannot show how much another
        would differ; ``verdict``; and whether it is the ``smallest`` or the ``fastest`` model that may be chosen. No rows if the test
        set is below the ``minimum``, or nothing is known about the best model.
    """
    minimum = minimum or EvaluationParameters()
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    best = best_on_validation(runs)
    if best is None or best not in costs or shortage(users, labels, minimum) is not None:
        return pd.DataFrame(columns=list(COLUMNS))
    candidates = {
        model: _candidate(users, labels, runs[model], cost) for model, cost in costs.items() if model in runs
    }
    cheaper = [model for model in candidates if model != best and _is_cheaper(costs[model], costs[best])]
    tests = non_inferiority_tests(candidates, reference=best, tested=cheaper, margin=minimum.margin)
    rows = []
    for model in sorted(candidates, key=lambda key: costs[key].bytes):
        cost, seeds = costs[model], (candidates[model].seeds, candidates[best].seeds)
        row: dict[str, object] = {
            "model": model, "name": runs[model].name, "parameters": cost.parameters, "bytes": cost.bytes, "microseconds": cost.microseconds,
            "seeds": None not in seeds, "verdict": REFERENCE,
        }  # fmt: skip
        if model != best:
            row |= _tested(tests[model], is_cheaper=model in cheaper)
        rows.append(row)
    table = pd.DataFrame(rows).assign(margin=minimum.margin, level=LEVEL)
    eligible = table[table["verdict"].isin([REFERENCE, NOT_WORSE])]
    for choice, column in (("smallest", "bytes"), ("fastest", "microseconds")):
        table[choice] = table.index == eligible[column].idxmin()
    return table.reindex(columns=list(COLUMNS))


def best_on_validation(runs: Mapping[str, ModelRuns]) -> str | None:
    """Return the model of the highest validation GAUC; None if there is no validation GAUC."""
    known = {key: run.validation_gauc for key, run in runs.items() if not np.isnan(run.validation_gauc)}
    return max(known, key=lambda key: known[key]) if known else None


def _tested(test: NonInferiority, *, is_cheaper: bool) -> dict[str, object]:
    """Return the columns of a model that is compared with the best one."""
    verdict = NOT_CHEAPER if not is_cheaper else NOT_WORSE if test.is_shown else NOT_SHOWN
    return {
        "difference": test.difference, "low": test.low, "high": 2 * test.difference - test.low,
        "p_holm": test.p_value if is_cheaper else np.nan, "verdict": verdict,
    }  # fmt: skip


def _is_cheaper(cost: ModelCost, best: ModelCost) -> bool:
    return cost.bytes < best.bytes or cost.microseconds < best.microseconds


def _candidate(users: np.ndarray, labels: np.ndarray, runs: ModelRuns, cost: ModelCost) -> Candidate:
    per_seed = [per_user_auc(users, labels, probabilities) for probabilities in runs.probabilities]
    seeds = variance_over_seeds(per_seed) if runs.deterministic or len(per_seed) > 1 else None
    return Candidate(mean_over_seeds(per_seed), cost.bytes, seeds)
