"""The difference of two models' GAUCs by resampling users: an interval that assumes no distribution."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC, per_user_auc
from deep_interest.evaluation.significance import (
    CONFIDENCE,
    FEWEST_USERS,
    Interval,
    check_confidence,
    mean_over_seeds,
)

_COUNTS_AT_ONCE = 1 << 22  # numbers of drawn users in memory


def paired_bootstrap(
    users: ArrayLike,
    labels: ArrayLike,
    ours: ArrayLike,
    base: ArrayLike,
    *,
    resamples: int = 10_000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Interval of ``GAUC(ours) - GAUC(base)`` over users, by the percentiles of resampled users (Efron and Tibshirani 1993, §13).

    Each resample draws as many users as there are, with replacement; both models are compared on the same users. The interval is
    about the fits at hand: how they compare on other users. With `difference_interval` and the seeds of several fits it is about
    the models.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        ours: ``(n,)`` scores of the one model, or ``(S, n)`` of several fits, whose AUCs are averaged for each user.
        base: scores of the other model, likewise.
        resamples: number of resamples.
        confidence: mass of the interval, in (0, 1).
        seed: seed of the resamples.

    Returns:
        The interval. The p-value is twice the smaller share of resamples at most or at least 0; at least ``2 / (resamples + 1)``.

    Raises:
        InputError: as for `per_user_auc`, a confidence or number of resamples out of range, or fewer than two users with both
            classes.

    Example:
        >>> import numpy as np
        >>> users = np.repeat(["ann", "bob", "cy", "dee"], 4)
        >>> labels = np.tile([1, 0, 1, 0], 4)
        >>> base = np.tile([0.6, 0.7, 0.3, 0.2], 4)
        >>> ours = np.tile([0.6, 0.4, 0.3, 0.2], 4)
        >>> paired_bootstrap(users, labels, ours, base, resamples=999).difference
        0.25
    """
    check_confidence(confidence)
    if resamples < 1:
        raise InputError(f"resamples: found {resamples}, expected at least 1")
    one, other = (user_aucs(users, labels, scores) for scores in (ours, base))
    if len(one.users) < FEWEST_USERS:
        raise InputError(
            f"users: found {len(one.users)} with both classes, expected at least {FEWEST_USERS} to resample"
        )
    differences = one.auc - other.auc
    drawn = _resampled(differences, one.impressions, resamples, np.random.default_rng(seed))
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    beyond = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return Interval(
        float(np.average(differences, weights=one.impressions)), float(low), float(high),
        p_value=min(1.0, 2 * (beyond + 1) / (resamples + 1)),
    )  # fmt: skip


def user_aucs(
    users: ArrayLike, labels: ArrayLike, scores: ArrayLike, *, within: ArrayLike | None = None
) -> UserAUC:
    """AUC of each user, averaged over the fits of a model.

    Args:
        users: ``(n,)`` ids.
        labels: ``(n,)`` in {0, 1}.
        scores: ``(n,)``, or ``(S, n)`` of several fits.
        within: ``(n,)`` ids of parts whose rows are not compared with those of other parts, see `metrics.per_user_auc`.
    """
    fits = np.atleast_2d(scores)
    return mean_over_seeds([per_user_auc(users, labels, of_fit, within=within) for of_fit in fits])


def _resampled(
    values: NDArray[np.float64], weights: NDArray[np.integer], resamples: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Weighted means of resampled users, ``(resamples,)``."""
    n = len(values)
    block, means = max(1, _COUNTS_AT_ONCE // n), []
    both = np.stack([values * weights, weights.astype(np.float64)], axis=1)
    for begin in range(0, resamples, block):
        counts = random.multinomial(n, np.full(n, 1 / n), size=min(block, resamples - begin))
        sums = counts @ both
        means.append(sums[:, 0] / sums[:, 1])
    return np.concatenate(means)
