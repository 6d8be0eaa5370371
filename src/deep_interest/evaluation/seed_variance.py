"""How much the GAUC of a model varies over the seeds of its fits.

The variance of a GAUC over seeds has two parts: the main effect of the seed, which moves all users alike, and the interaction
of seed and user, which moves each user's AUC independently. Both come from the two-way layout of seeds × users of one model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_interest.evaluation.metrics import UserAUC


@dataclass(frozen=True)
class SeedVariance:
    """Variance of one model's GAUC over its fits, as observed.

    Attributes:
        seeds: number of fits ``S`` that the GAUC is averaged over.
        total: sample variance of the GAUC over the fits, with ``S - 1`` degrees of freedom; 0 with one fit.
        interaction: the part of it that comes from seeds moving single users' AUCs; 0 with one fit.
    """

    seeds: int
    total: float
    interaction: float


FIXED = SeedVariance(1, 0.0, 0.0)
"""For scores without randomness."""


def variance_over_seeds(per_seed: Sequence[UserAUC]) -> SeedVariance:
    """Variance of the GAUC over fits, and its part from the interaction of seeds and users.

    Args:
        per_seed: AUCs of the same users by each fit.
    """
    seeds = len(per_seed)
    if seeds == 1:
        return FIXED
    weights = per_seed[0].impressions / per_seed[0].impressions.sum()  # (m,)
    aucs = np.stack([users.auc for users in per_seed])  # (S, m)
    gaucs = aucs @ weights  # (S,)
    residuals = aucs - aucs.mean(axis=0) - (gaucs - gaucs.mean())[:, None]
    squares = (residuals**2).sum(axis=0) / (seeds - 1)
    return SeedVariance(seeds, float(gaucs.var(ddof=1)), variance_of_mean(squares, weights))


def variance_of_mean(squares: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Variance of a weighted mean over users, from the squared residuals of each user.

    ``Σ_u w_u² r_u² / (1 - w_u)``: the sandwich estimator with the HC2 correction, which for equal weights is ``s² / m``.

    Args:
        squares: ``(m,)`` squared distances from the weighted mean.
        weights: ``(m,)`` of sum 1, each below 1.
    """
    return float((weights**2 * squares / (1 - weights)).sum())
