"""For whom a model works: GAUC of groups of test samples, and the difference to one model, with intervals."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.evaluation.metrics import UserAUC, per_user_auc
from deep_interest.evaluation.seed_variance import SeedVariance, variance_over_seeds
from deep_interest.evaluation.significance import (
    CHANCE,
    chance_interval,
    difference_interval,
    mean_over_seeds,
)

FEWEST_USERS = 10  # with both classes, for a GAUC of a group
COLUMNS = (
    "grouping", "group", "model", "name", "samples", "users", "gauc", "gauc_low", "gauc_high",
    "difference", "difference_low", "difference_high",
)  # fmt: skip


def group_table(
    test: pd.DataFrame,
    runs: Mapping[str, ModelRuns],
    sizes: Mapping[str, NDArray[np.integer]],
    *,
    base: str = "base",
) -> pd.DataFrame:
    """Return GAUC and difference to one model by group of test samples.

    Args:
        test: one row per test sample: ``user`` (integer) and ``label``.
        runs: by model key.
        sizes: ``{grouping: (n,)}`` whole numbers that order the samples, such as the length of the history.
        base: key of the model to compare with; differences are NaN without it.

    Returns:
        One row per grouping, group and model (`COLUMNS`). Groups are 0, if it occurs, and quarters of the other samples. Intervals are over
        users and seeds; values are NaN in groups with fewer than 10 users with both classes.
    """
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    rows = []
    for grouping, values in sizes.items():
        for name, chosen in groups_of(values):
            scored = {
                model: [per_user_auc(users[chosen], labels[chosen], p[chosen]) for p in of.probabilities]
                for model, of in runs.items()
            }
            for model, per_seed in scored.items():
                row = {
                    "grouping": grouping, "group": name, "model": model, "name": runs[model].name,
                    "samples": int(chosen.sum()), "users": len(per_seed[0].users),
                }  # fmt: skip
                if len(per_seed[0].users) >= FEWEST_USERS:
                    row |= _values(per_seed, runs[model], scored.get(base), runs.get(base))
                rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def groups_of(values: NDArray[np.integer]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the name and the samples of each group: 0, if it occurs, and quarters of the others; fewer if many are equal.

    Args:
        values: ``(n,)`` whole numbers.
    """
    if (values == 0).any():
        yield "0", values == 0
    others = values[values != 0]
    if not len(others):
        return
    edges = np.unique(np.quantile(others, [0, 0.25, 0.5, 0.75, 1]).astype(int))
    starts = [edges[0], *(edges[1:-1] + 1)]
    for low, high in zip(starts, edges[1:] if len(edges) > 1 else edges, strict=True):
        yield f"{low:,} to {high:,}" if low < high else f"{low:,}", (values >= low) & (values <= high)


def _values(
    per_seed: list[UserAUC], runs: ModelRuns, base: list[UserAUC] | None, base_runs: ModelRuns | None
) -> dict[str, float]:
    mean, seeds = mean_over_seeds(per_seed), _seeds(per_seed, runs)
    interval = chance_interval(mean, seeds=seeds)
    found = {
        "gauc": CHANCE + interval.difference,
        "gauc_low": CHANCE + interval.low,
        "gauc_high": CHANCE + interval.high,
    }
    if base is None or base_runs is None or base is per_seed:
        return found
    difference = difference_interval(mean, mean_over_seeds(base), seeds=[*seeds, *_seeds(base, base_runs)])
    return found | {
        "difference": difference.difference, "difference_low": difference.low, "difference_high": difference.high,
    }  # fmt: skip


def _seeds(per_seed: list[UserAUC], runs: ModelRuns) -> list[SeedVariance]:
    """Return the variance over fits; nothing if one fit cannot show how much another would differ."""
    return [variance_over_seeds(per_seed)] if runs.deterministic or len(per_seed) > 1 else []
