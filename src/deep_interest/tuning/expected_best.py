"""Expected best validation score as a function of the number of trials (Dodge et al. 2019, "Show Your Work")."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

CHANCE = 0.5  # score of a trial that diverged before its first evaluation


class ExpectedBest(NamedTuple):
    """Distribution of the best of k trials, for k = 1, …, n.

    Attributes:
        mean: ``(n,)`` expected best score.
        deviation: ``(n,)`` its standard deviation.
    """

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def expected_best(scores: ArrayLike, *, replacement: bool = False) -> ExpectedBest:
    """Return the expected best score of k trials, from the scores of n trials, for k = 1, …, n.

    With the scores in ascending order, the best of k is at most the i-th with probability ``(i/n)^k`` if the k trials are drawn
    with replacement (Dodge et al. 2019, eq. 7), and ``C(i,k) / C(n,k)`` without (Tang et al. 2020, which is unbiased).

    Args:
        scores: ``(n,)`` scores of the trials, in any order.
        replacement: whether trials are drawn with replacement.
    """
    ascending = np.sort(np.asarray(scores, np.float64))
    n = len(ascending)
    ranks = np.arange(n + 1)
    below = np.ones(n + 1)  # probability that all trials so far are among the first ranks
    mean, deviation = np.empty(n), np.empty(n)
    for drawn in range(n):
        taken, among = (0, n) if replacement else (drawn, n - drawn)
        below = below * np.maximum(ranks - taken, 0) / among
        probability = np.diff(below)
        mean[drawn] = probability @ ascending
        deviation[drawn] = np.sqrt(max(0.0, float(probability @ (ascending - mean[drawn]) ** 2)))
    return ExpectedBest(mean, deviation)


def expected_best_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the expected best validation GAUC of each model after 1, 2, … of its trials, in random order.

    Args:
        trials: one row per finished trial with ``model`` and ``validation_gauc`` (of a pruned trial the best before it was stopped).

    Returns:
        Columns ``model``, ``trials``, ``expected``, ``deviation``.
    """
    tables = []
    for model, rows in trials.groupby("model", sort=False):
        mean, deviation = expected_best(rows["validation_gauc"].fillna(CHANCE))
        counts = np.arange(1, len(rows) + 1)
        tables.append(
            pd.DataFrame({"model": model, "trials": counts, "expected": mean, "deviation": deviation})
        )
    columns = ["model", "trials", "expected", "deviation"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
