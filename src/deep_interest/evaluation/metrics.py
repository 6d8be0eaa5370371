"""AUC, GAUC, LogLoss and RelaImpr as the DIN paper defines them, in NumPy and without a loop over users."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.errors import InputError

PROBABILITY_CLIP = 1e-7  # LogLoss of one sample is therefore at most 16.1


@dataclass(frozen=True)
class GAUC:
    """User-weighted AUC and how much of the test set it speaks for.

    Attributes:
        value: ``Σ_u n_u AUC_u / Σ_u n_u`` over the users that have both classes.
        user_coverage: share of all users that have both classes, in (0, 1].
        impression_coverage: share of all impressions that belong to these users, in (0, 1].
    """

    value: float
    user_coverage: float
    impression_coverage: float


@dataclass(frozen=True)
class UserAUC:
    """AUC of each user that has both classes, ascending by user.

    Attributes:
        users: (m,) ids.
        impressions: (m,) ``n_u``, rows of each of these users.
        auc: (m,) in [0, 1].
        total_users: users of the test set, those with one class included.
        total_impressions: rows of the test set.
    """

    users: NDArray[Any]
    impressions: NDArray[np.int64]
    auc: NDArray[np.float64]
    total_users: int
    total_impressions: int

    def gauc(self) -> GAUC:
        """Weigh the users' AUCs by their impressions (DIN eq. 10).

        Raises:
            InputError: no user has both classes.
        """
        if not len(self.users):
            raise InputError(
                f"labels: none of the {self.total_users} users has both a positive and a negative row, so GAUC "
                "is undefined. Expected at least one such user: take a larger test set or another protocol"
            )
        return GAUC(
            value=float(np.average(self.auc, weights=self.impressions)),
            user_coverage=len(self.users) / self.total_users,
            impression_coverage=int(self.impressions.sum()) / self.total_impressions,
        )


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Probability that a positive row scores above a negative one; a tie counts one half.

    Args:
        labels: (n,) in {0, 1}.
        scores: (n,) finite, any monotone scale.

    Returns:
        AUC in [0, 1], NaN if all rows are of one class.

    Raises:
        InputError: empty input, unequal lengths, labels outside {0, 1}, or scores that are not finite.
    """
    labels, scores = checked_labels(labels), _checked_scores(scores)
    _check_lengths(labels=labels, scores=scores)
    order = np.argsort(scores)
    return float(_auc_of_runs(np.zeros(1, np.int64), labels[order], scores[order])[0])


def per_user_auc(
    users: ArrayLike, labels: ArrayLike, scores: ArrayLike, *, within: ArrayLike | None = None
) -> UserAUC:
    """AUC of each user over her own rows, with one sort for all users.

    Args:
        users: (n,) ids, integers or strings, in any order.
        labels: (n,) in {0, 1}.
        scores: (n,) finite, any monotone scale.
        within: (n,) ids of parts of the test set, such as days, integers or strings. Rows of different parts are not compared: a user's
            AUC is the mean of those in her parts, weighted by rows, and parts with one class are left out.

    Raises:
        InputError: as for `auc`, and if ``users`` or ``within`` are neither integers nor strings.
    """
    if within is not None:
        return _within(_checked_users(users), _checked_users(within, "within"), labels, scores)
    users, labels, scores = _checked_users(users), checked_labels(labels), _checked_scores(scores)
    _check_lengths(users=users, labels=labels, scores=scores)
    order = np.lexsort((scores, users))
    users = users[order]
    starts = np.flatnonzero(_changes(users))
    values = _auc_of_runs(starts, labels[order], scores[order])
    has_both = ~np.isnan(values)
    return UserAUC(
        users=users[starts[has_both]],
        impressions=np.diff(starts, append=len(users))[has_both],
        auc=values[has_both],
        total_users=len(starts),
        total_impressions=len(users),
    )


def _within(users: NDArray[Any], parts: NDArray[Any], labels: ArrayLike, scores: ArrayLike) -> UserAUC:
    _check_lengths(users=users, within=parts)
    ids, user = np.unique(users, return_inverse=True)
    names, part = np.unique(parts, return_inverse=True)
    of_parts = per_user_auc(user * len(names) + part, labels, scores)
    user = of_parts.users // len(names)
    rows = np.bincount(user, of_parts.impressions, minlength=len(ids))
    won = np.bincount(user, of_parts.impressions * of_parts.auc, minlength=len(ids))
    has_both = rows > 0
    return UserAUC(
        users=ids[has_both],
        impressions=rows[has_both].astype(np.int64),
        auc=won[has_both] / rows[has_both],
        total_users=len(ids),
        total_impressions=len(users),
    )


def gauc(users: ArrayLike, labels: ArrayLike, scores: ArrayLike, *, within: ArrayLike | None = None) -> GAUC:
    """User-weighted AUC (DIN eq. 10); users with one class are left out of both sums.

    Args and errors as for `per_user_auc`; further an InputError if no user has both classes.
    """
    return per_user_auc(users, labels, scores, within=within).gauc()


def logloss(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Mean negative log-likelihood in nats (DIN eq. 2), in float64.

    Probabilities are clipped to [1e-7, 1 - 1e-7], so that one certain and wrong prediction costs 16.1, not infinity.

    Args:
        labels: (n,) in {0, 1}.
        probabilities: (n,) of a positive label, in [0, 1].

    Raises:
        InputError: empty input, unequal lengths, labels outside {0, 1}, or values outside [0, 1].
    """
    labels, p = checked_labels(labels), checked_probabilities(probabilities)
    _check_lengths(labels=labels, probabilities=p)
    p = np.clip(p.astype(np.float64), PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    return float(-np.where(labels, np.log(p), np.log1p(-p)).mean())


def rela_impr(metric: float, base: float) -> float:
    """Relative improvement in percent over the base model's metric (DIN eq. 11), 0.5 being chance.

    Both values must be of one dataset, protocol and metric. NaN if the base is not above chance (0.5): there
    is nothing an improvement could be relative to.
    """
    return ((metric - 0.5) / (base - 0.5) - 1) * 100 if base > 0.5 else np.nan


def _auc_of_runs(
    starts: NDArray[np.int64], labels: NDArray[np.bool_], scores: NDArray[np.floating]
) -> NDArray[np.float64]:
    """AUC of each run of rows ``[starts[i], starts[i + 1])``, the scores ascending within a run.

    By the rank-sum identity ``(R - P (P + 1) / 2) / (P N)``, with R the sum of the positives' ranks. A tie has
    the middle of its ranks; ranks are doubled so that all sums are exact integers. NaN for one class.
    """
    rows = np.diff(starts, append=len(labels))
    new_value = _changes(scores)
    new_value[starts] = True
    tie_starts = np.flatnonzero(new_value)
    tie_rows = np.diff(tie_starts, append=len(labels))
    doubled_ranks = np.repeat(2 * tie_starts + tie_rows + 1, tie_rows) - np.repeat(2 * starts, rows)
    positives = np.add.reduceat(labels, starts, dtype=np.int64)
    rank_sums = np.add.reduceat(np.where(labels, doubled_ranks, 0), starts)
    pairs = positives * (rows - positives)
    won_doubled = rank_sums - positives * (positives + 1)
    return np.divide(won_doubled, 2 * pairs, out=np.full(len(starts), np.nan), where=pairs > 0)


def _changes(values: NDArray) -> NDArray[np.bool_]:
    """True at the first row and wherever a value differs from the one before it."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def checked_labels(labels: ArrayLike) -> NDArray[np.bool_]:
    """Return labels as bools.

    Raises:
        InputError: a label is neither 0 nor 1.
    """
    labels = np.asarray(labels)
    positive = labels == 1
    wrong = ~(positive | (labels == 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"labels: row {row} is {labels[row]}, expected 0 or 1 in every row")
    return positive


def checked_probabilities(probabilities: ArrayLike) -> NDArray[np.floating]:
    """Return probabilities as an array.

    Raises:
        InputError: a value is not finite, or outside [0, 1].
    """
    p = _checked_scores(probabilities, name="probabilities")
    outside = (p < 0) | (p > 1)
    if outside.any():
        row = int(outside.argmax())
        raise InputError(
            f"probabilities: row {row} is {p[row]}, expected 0 to 1; apply the sigmoid to logits first"
        )
    return p


def _checked_scores(scores: ArrayLike, *, name: str = "scores") -> NDArray[np.floating]:
    scores = np.asarray(scores)
    wrong = ~np.isfinite(scores)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{name}: {int(wrong.sum())} of {len(scores)} rows are not finite (row {row} is {scores[row]}), expected "
            "finite numbers. A model that diverged gives such values: lower its learning rate or clip its gradients"
        )
    return scores


def _checked_users(users: ArrayLike, name: str = "users") -> NDArray[Any]:
    users = np.asarray(users)
    if users.dtype.kind == "O" and all(isinstance(user, str) for user in users):
        users = users.astype(str)
    if len(users) and users.dtype.kind not in "iuU":
        raise InputError(f"{name}: found {users.dtype} ids, expected integers or strings")
    return users


def _check_lengths(**columns: NDArray) -> None:
    shapes = {name: column.shape for name, column in columns.items()}
    rows = {shape[0] for shape in shapes.values() if len(shape) == 1}
    if len(rows) != 1 or any(len(shape) != 1 for shape in shapes.values()):
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(
            f"{' and '.join(columns)}: found shapes {found}, expected one value per test row in each"
        )
    if rows == {0}:
        raise InputError(f"{' and '.join(columns)}: found 0 rows, expected at least one test row")
