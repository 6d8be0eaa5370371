"""The power of a test set against one model: a row for each other model of a results table."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.evidence import EvaluationParameters, shortage
from deep_interest.evaluation.metrics import UserAUC, per_user_auc
from deep_interest.evaluation.power import DIFFERENCES, power_of
from deep_interest.evaluation.seed_variance import SeedVariance, variance_over_seeds
from deep_interest.evaluation.significance import mean_over_seeds

POWER = 0.8
LEVEL = 0.05
COLUMNS = (
    "model",
    "name",
    "base",
    "users",
    "days",
    "seeds",
    "smallest_difference",
    *(f"factor_{d}" for d in DIFFERENCES),
)


def power_table(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    *,
    days: int | None = None,
    base: str = "base",
    minimum: EvaluationParameters | None = None,
) -> pd.DataFrame:
    """Return what a test set can show about each model in comparison with one of them.

    Args:
        test: one row per test sample: ``user`` (integer) and ``label``.
        runs: by model key.
        days: days of the test set; None if unknown.
        base: key of the model to compare with.
        minimum: what the test set needs before there are intervals.

    Returns:
        One row per model except ``base``, with its ``name`` and that of the base: ``users`` with both classes; ``days`` of the test
        set, NaN if unknown; ``seeds``, False if one fit of the two models cannot show how much another would differ, so that the row is
        about users alone; ``smallest_difference`` in GAUC that is found with a power of 80 % at the level 5 %; and for the differences 0.001,
        0.002 and 0.005 by which factor the number of users would have to grow (``factor_*``), infinite if only more fits help. No
        rows if ``base`` is not among the models, or the test set is below the ``minimum``.
    """
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    if base not in runs or shortage(users, labels, minimum or EvaluationParameters()) is not None:
        return pd.DataFrame(columns=list(COLUMNS))
    scored = {model: _score(users, labels, of) for model, of in runs.items()}
    base_users, base_seeds = scored[base]
    rows = []
    for model, (aucs, seeds) in scored.items():
        if model == base:
            continue
        known = [each for each in (seeds, base_seeds) if each is not None]
        found = power_of(aucs, base_users, seeds=known, power=POWER, level=LEVEL)
        factors = {f"factor_{difference}": found.factor(difference) for difference in DIFFERENCES}
        row = {
            "model": model,
            "name": runs[model].name,
            "base": runs[base].name,
            "users": found.users,
            "days": np.nan if days is None else days,
        }
        rows.append(
            row | {"seeds": len(known) == 2, "smallest_difference": found.smallest_difference} | factors
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _score(users: np.ndarray, labels: np.ndarray, runs: ModelRuns) -> tuple[UserAUC, SeedVariance | None]:
    """Return the AUC of each user, averaged over fits, and the variance over fits, None if there is only one of several possible."""
    per_seed = [per_user_auc(users, labels, probabilities) for probabilities in runs.probabilities]
    seeds = variance_over_seeds(per_seed) if runs.deterministic or len(per_seed) > 1 else None
    return mean_over_seeds(per_seed), seeds
