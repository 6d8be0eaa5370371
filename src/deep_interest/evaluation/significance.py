"""Is one model's GAUC above another's? Paired bootstrap over the users of the test set, and Holm's correction.

The models are scored on the same users, so a resample draws users (with all their impressions) and compares both
models on them. The intervals are over users *given the trained models*: with several seeds each user's AUC is
averaged over the seeds first (`mean_over_seeds`), so they say how the averaged models would compare on other
users, and leave out how another set of seeds would change them; for that see the deviation over seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC


@dataclass(frozen=True)
class Interval:
    """A difference of two GAUCs with its bootstrap interval.

    Attributes:
        difference: GAUC of the one minus GAUC of the other on all users.
        low: lower end of the percentile interval.
        high: upper end of the percentile interval.
        p_value: two-sided bootstrap p-value of "no difference", in (0, 1]; its smallest possible value is
            2 / (resamples + 1).
    """

    difference: float
    low: float
    high: float
    p_value: float


def paired_bootstrap(
    ours: UserAUC, base: UserAUC, *, resamples: int = 2000, confidence: float = 0.95, seed: int
) -> Interval:
    """Interval of ``GAUC(ours) - GAUC(base)`` over resampled users; one test set, both models on the same users.

    Args:
        ours: per-user AUCs of the one model, averaged over its seeds.
        base: per-user AUCs of the other.
        resamples: number of bootstrap resamples.
        confidence: mass of the interval, in (0, 1).
        seed: of the resampling; one seed draws the same users for every pair of models of a test set.

    Raises:
        InputError: different users, no users, or an option out of range.
    """
    return paired_bootstraps([ours], base, resamples=resamples, confidence=confidence, seed=seed)[0]


def paired_bootstraps(
    rows: Sequence[UserAUC], base: UserAUC, *, resamples: int = 2000, confidence: float = 0.95, seed: int
) -> list[Interval]:
    """`paired_bootstrap` of several models against one base, all on the same resampled users (drawn once)."""
    _check_options(resamples=resamples, confidence=confidence)
    for row in rows:
        _check_same_users(row, base)
    differences = np.stack([row.auc - base.auc for row in rows])
    weights = base.impressions.astype(np.float64)
    resampled = _resampled_differences(differences, weights, resamples=resamples, seed=seed)
    observed = np.average(differences, axis=1, weights=weights)
    return [
        _interval(float(value), column, confidence=confidence)
        for value, column in zip(observed, resampled.T, strict=True)
    ]


def mean_over_seeds(per_seed: Sequence[UserAUC]) -> UserAUC:
    """Each user's AUC averaged over the seeds of one model; its GAUC is the mean of the seeds' GAUCs.

    Raises:
        InputError: the seeds were scored on different users.
    """
    for other in per_seed[1:]:
        _check_same_users(other, per_seed[0])
    return replace(per_seed[0], auc=np.mean([seed.auc for seed in per_seed], axis=0))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values: comparing each with α keeps the chance of any false finding below α.

    Args:
        p_values: (k,) in [0, 1], one per comparison.

    Returns:
        (k,) adjusted p-values, in the order given.

    Raises:
        InputError: a value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"p_values: found {p.tolist()}, expected values from 0 to 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def _resampled_differences(
    differences: NDArray[np.float64], weights: NDArray[np.float64], *, resamples: int, seed: int
) -> NDArray[np.float64]:
    """GAUC differences (resamples, models) on users drawn with replacement; memory is models × users.

    A resample is held as counts, how often each user was drawn, so that all models share one product.
    """
    rng = np.random.default_rng(seed)
    users = len(weights)
    weighted = np.vstack([differences * weights, weights])
    result = np.empty((resamples, len(differences)))
    for row in result:
        counts = np.bincount(rng.integers(users, size=users), minlength=users)
        *sums, total = weighted @ counts.astype(np.float64)
        row[:] = np.asarray(sums) / total
    return result


def _interval(difference: float, resampled: NDArray[np.float64], *, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    one_sided = min((resampled <= 0).sum(), (resampled >= 0).sum())
    p_value = min(1.0, 2 * (int(one_sided) + 1) / (len(resampled) + 1))
    return Interval(difference=difference, low=float(low), high=float(high), p_value=p_value)


def _check_options(*, resamples: int, confidence: float) -> None:
    if resamples < 1:
        raise InputError(f"resamples: found {resamples}, expected at least 1 (2000 is usual)")
    if not 0 < confidence < 1:
        raise InputError(f"confidence: found {confidence}, expected a share between 0 and 1, as 0.95")


def _check_same_users(one: UserAUC, other: UserAUC) -> None:
    if not np.array_equal(one.users, other.users) or not np.array_equal(one.impressions, other.impressions):
        raise InputError(
            f"users: the models to compare were scored on different test rows ({len(one.users)} and "
            f"{len(other.users)} users with both classes); expected one test set, score both models on it"
        )
    if not len(one.users):
        raise InputError(
            "users: no user has both classes, expected at least one; there is nothing to resample"
        )
