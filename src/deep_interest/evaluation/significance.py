"""Is one model's GAUC above another's? Intervals over users and seeds, and Holm's correction.

The models of a table are scored on the same users, so users are paired; each model has fits of its own, so seeds are
not. User ``u``'s AUC by the fit ``s`` of a model is a mean, plus an effect of the user, plus an effect of the seed, plus their
interaction (a crossed random-effects model). The variance of the difference of two GAUCs, both averaged over ``S`` fits, is

    V = V_models + Σ over both models total / S        V_models = V_users - Σ interaction / S

``V_users`` is the variance of the weighted mean over users of the paired differences (`variance_of_mean`). It includes the
interaction of seeds and users, which is a part of ``total`` as well (`seed_variance`) and so is subtracted; what remains,
``V_models``, is the variance of the models' own effects on users. It is 0 for two sets of fits of one model, whose interval is then
that of the t-test on the GAUCs of the fits. ``V_models`` counts only where ``V_users`` exceeds the interaction by 40 %:
clipping its noise at 0 would widen the intervals between models that treat users alike.

The interval is ``difference ± t sqrt(V)`` with the degrees of freedom of Welch and Satterthwaite. How often such intervals
exclude 0 where there is no difference is measured by ``benchmarks/aa_levels.py``; the rates are in ``docs/statistics.md``.

Without seed variances the interval is over users *given the trained models*: how these two fits compare on other users.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.seed_variance import SeedVariance, variance_of_mean

CONFIDENCE = 0.95  # of the intervals of tables
CHANCE = 0.5  # the GAUC of guessing
FEWEST_USERS = 2  # for a variance over users
_DETECTABLE = 1.4  # V_users / interaction from which the models have effects on users of their own


@dataclass(frozen=True)
class Interval:
    """A difference with its confidence interval.

    Attributes:
        difference: GAUC of the one minus GAUC of the other on all users.
        low: lower end of the interval.
        high: upper end of the interval.
        p_value: two-sided p-value of "no difference", in [0, 1].
    """

    difference: float
    low: float
    high: float
    p_value: float


def difference_interval(
    ours: UserAUC, base: UserAUC, *, seeds: Sequence[SeedVariance] = (), confidence: float = CONFIDENCE
) -> Interval:
    """Interval of ``GAUC(ours) - GAUC(base)`` on one test set.

    Args:
        ours: per-user AUCs of the one model, averaged over its seeds.
        base: per-user AUCs of the other.
        seeds: seed variance of each of the two models; left out, the interval is about the fits at hand.
        confidence: mass of the interval, in (0, 1).

    Raises:
        InputError: different users, fewer than two users, or a confidence out of range.
    """
    _check_same_users(ours, base)
    return _interval(ours.auc - base.auc, ours.impressions, seeds, confidence)


def chance_interval(
    ours: UserAUC, *, seeds: Sequence[SeedVariance] = (), confidence: float = CONFIDENCE
) -> Interval:
    """Interval of ``GAUC(ours) - 0.5``: does the model rank better than guessing?

    Args and errors as for `difference_interval`.
    """
    return _interval(ours.auc - CHANCE, ours.impressions, seeds, confidence)


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


def difference_estimate(ours: UserAUC, base: UserAUC, *, seeds: Sequence[SeedVariance] = ()) -> "Estimate":
    """Difference of two GAUCs with its standard error; args and errors as for `difference_interval`."""
    _check_same_users(ours, base)
    _check_users(len(ours.users))
    return _estimate(ours.auc - base.auc, ours.impressions, seeds)


def variance_parts(
    ours: UserAUC, base: UserAUC, *, seeds: Sequence[SeedVariance] = ()
) -> tuple[float, float]:
    """Split the variance of a difference: the part that falls with the number of users, and the main effects of the seeds.

    The interaction of seeds and users belongs to the first part. Args and errors as for `difference_interval`.
    """
    estimate = difference_estimate(ours, base, seeds=seeds)
    interactions = sum(min(seed.interaction, seed.total) / seed.seeds for seed in seeds)
    main = sum(max(0.0, seed.total - seed.interaction) / seed.seeds for seed in seeds)
    return estimate.of_models + interactions, main


@dataclass(frozen=True)
class Estimate:
    """Weighted mean of one value per user.

    Attributes:
        mean: the mean.
        variance: its variance over users and seeds.
        of_models: the part of it that comes from what the models do differently for single users.
        df: degrees of freedom of the variance.
    """

    mean: float
    variance: float
    of_models: float
    df: float

    @property
    def error(self) -> float:
        """Standard error."""
        return self.variance**0.5

    def below(self, value: float) -> float:
        """One-sided p-value of "the mean is at most ``value``"; 0 or 1 without any variance."""
        if self.variance == 0:
            return float(self.mean <= value)
        return float(stdtr(self.df, (value - self.mean) / self.error))

    def half_width(self, confidence: float) -> float:
        """Half of the width of the interval."""
        return float(stdtrit(self.df, (1 + confidence) / 2)) * self.error if self.variance else 0.0


def _interval(
    values: NDArray[np.float64],
    impressions: NDArray[np.integer],
    seeds: Sequence[SeedVariance],
    confidence: float,
) -> Interval:
    """Interval of the weighted mean of one value per user."""
    check_confidence(confidence)
    _check_users(len(values))
    found = _estimate(values, impressions, seeds)
    mean, half = found.mean, found.half_width(confidence)
    if found.variance == 0:
        return Interval(mean, mean, mean, p_value=float(mean == 0))
    return Interval(
        mean, mean - half, mean + half, p_value=float(2 * stdtr(found.df, -abs(mean) / found.error))
    )


def _estimate(
    values: NDArray[np.float64], impressions: NDArray[np.integer], seeds: Sequence[SeedVariance]
) -> Estimate:
    weights = impressions / impressions.sum()
    mean = float(values @ weights)
    over_users = variance_of_mean((values - mean) ** 2, weights)
    totals = np.array([seed.total / seed.seeds for seed in seeds])
    interactions = np.array([seed.interaction / seed.seeds for seed in seeds])
    of_models = over_users - interactions.sum() if over_users > _DETECTABLE * interactions.sum() else 0.0
    variance = float(of_models + totals.sum())
    if variance == 0:
        return Estimate(mean, 0.0, 0.0, np.inf)
    over_seeds = _expected(totals, interactions)
    uncertainty = sum(part**2 / max(1, seed.seeds - 1) for part, seed in zip(over_seeds, seeds, strict=True))
    if of_models:
        uncertainty += over_users**2 / (1 / (weights**2).sum() - 1)  # as of 1 / Σ w² equally weighted users
    return Estimate(
        mean, variance, float(of_models), float((of_models + over_seeds.sum()) ** 2 / uncertainty)
    )


def _expected(totals: NDArray[np.float64], interactions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variances over seeds from which the degrees of freedom follow: in proportion to the interactions.

    The totals of two seeds have one degree of freedom each. One that is near 0 by chance would distort Satterthwaite's formula;
    the interactions rest on all users. Their sum is that of the totals, at least that of the interactions.
    """
    if not interactions.any():
        return totals
    return interactions * max(1.0, totals.sum() / interactions.sum())


def check_confidence(confidence: float) -> None:
    """Check that a confidence is a share."""
    if not 0 < confidence < 1:
        raise InputError(f"confidence: found {confidence}, expected a share between 0 and 1, as 0.95")


def _check_users(users: int) -> None:
    if users < FEWEST_USERS:
        raise InputError(
            f"users: found {users} with both classes, expected at least {FEWEST_USERS}: one user has no variance over users"
        )


def _check_same_users(one: UserAUC, other: UserAUC) -> None:
    if not np.array_equal(one.users, other.users) or not np.array_equal(one.impressions, other.impressions):
        raise InputError(
            f"users: the models to compare were scored on different test rows ({len(one.users)} and "
            f"{len(other.users)} users with both classes); expected one test set, score both models on it"
        )
