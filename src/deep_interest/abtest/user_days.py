"""The log of an A/B test as arrays: sums by user and day, the arm of each user, and the sums of a pre-period."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.abtest.metrics import QUANTITIES
from deep_interest.abtest.moments import Moments
from deep_interest.errors import InputError


@dataclass(frozen=True)
class UserDays:
    """Sums by user and day. Use `UserDays.of` to make one from the columns of a log.

    Attributes:
        arm_names: names of the arms.
        arms: ``(U,)`` arm of each user, an index in ``arm_names``.
        users: ``(N,)`` user of each row, in the range of ``arms``; at most one row per user and day.
        days: ``(N,)`` day of each row.
        values: ``(N, 3)`` impressions, clicks and revenue of each row.
        pre_period: ``(U, 3)`` impressions, clicks and revenue of each user before the test; None without a pre-period.
        in_two_arms: number of users who were seen in more than one arm, and are left out.
    """

    arm_names: tuple[str, ...]
    arms: NDArray[np.intp]
    users: NDArray[np.intp]
    days: NDArray[np.int64]
    values: NDArray[np.float64]
    pre_period: NDArray[np.float64] | None = None
    in_two_arms: int = 0

    @classmethod
    def of(
        cls,
        users: ArrayLike,
        arms: ArrayLike,
        days: ArrayLike,
        values: ArrayLike,
        *,
        arm_names: Sequence[str],
        pre_period: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> "UserDays":
        """Add up the rows of a log by user and day, and leave out users who were seen in more than one arm.

        Args:
            users: ``(n,)`` ids of users, integers or strings, in any order.
            arms: ``(n,)`` names of arms.
            days: ``(n,)`` integers.
            values: ``(n, 3)`` impressions, clicks and revenue, at least 0.
            arm_names: names of all arms.
            pre_period: ids of users ``(m,)`` and their impressions, clicks and revenue ``(m, 3)`` before the test; users that are not in
                the test are ignored.

        Raises:
            InputError: arrays of different lengths, an unknown arm, or a value that is negative or not a number.
        """
        ids, names = np.asarray(users), np.asarray(arms)
        rows, day = _checked(values, len(ids)), np.asarray(days)
        if not len(ids) == len(names) == len(day):
            raise InputError(
                f"users, arms, days: found {len(ids)}, {len(names)} and {len(day)} values, expected equally many"
            )
        order = np.argsort(np.asarray(arm_names))
        found = np.searchsorted(np.asarray(arm_names)[order], names)
        index = order[np.minimum(found, len(order) - 1)]
        if (other := np.asarray(arm_names)[index] != names).any():
            raise InputError(
                f"arms: found {names[other][0]!r}, expected one of {', '.join(map(str, arm_names))}"
            )
        known, user = np.unique(ids, return_inverse=True)
        lowest = np.full(len(known), len(arm_names))
        highest = np.full(len(known), -1)
        np.minimum.at(lowest, user, index)
        np.maximum.at(highest, user, index)
        one_arm = lowest == highest
        kept = one_arm[user]
        new_code = np.cumsum(one_arm) - 1
        summed = _by_user_and_day(new_code[user[kept]], day[kept].astype(np.int64), rows[kept])
        before = None
        if pre_period is not None:
            before = _aligned(known[one_arm], *pre_period)
        return cls(
            tuple(map(str, arm_names)), lowest[one_arm], *summed, before, in_two_arms=int((~one_arm).sum())
        )

    @cached_property
    def all_days(self) -> list[int]:
        """All days with rows, in order."""
        return np.unique(self.days).tolist()

    @cached_property
    def first_day(self) -> NDArray[np.int64]:
        """First day of each user ``(U,)``."""
        first = np.full(len(self.arms), np.iinfo(np.int64).max)
        np.minimum.at(first, self.users, self.days)
        return first

    @cached_property
    def covariates(self) -> NDArray[np.float64] | None:
        """Covariates ``(U, 7)`` of the pre-period: its sums, their square roots, and whether a user has none; None without a pre-period.

        The square roots let a user with ten times the impressions predict less than ten times as much.
        """
        if self.pre_period is None:
            return None
        is_new = ~self.pre_period.any(axis=1)
        return np.column_stack([self.pre_period, np.sqrt(self.pre_period), is_new])

    def users_of(self, arm: str) -> int:
        """Return the number of users of an arm."""
        return int((self.arms == self.arm_names.index(arm)).sum())

    def moments(self) -> dict[str, Moments]:
        """Return the moments of all users by arm."""
        totals = np.zeros((len(self.arms), len(QUANTITIES)))
        np.add.at(totals, self.users, self.values)
        return self._moments(totals, np.ones(len(self.arms), bool))

    def moments_by_day(self) -> Iterator[tuple[int, dict[str, Moments]]]:
        """Yield each day with the moments by arm of all sums up to it, over the users seen up to it."""
        totals, seen = np.zeros((len(self.arms), len(QUANTITIES))), np.zeros(len(self.arms), bool)
        order = np.argsort(self.days, kind="stable")
        ends = np.searchsorted(self.days[order], self.all_days, side="right")
        begin = 0
        for day, end in zip(self.all_days, ends, strict=True):
            rows = order[begin:end]
            totals[self.users[rows]] += self.values[rows]  # a user has one row per day
            seen[self.users[rows]] = True
            yield day, self._moments(totals, seen)
            begin = end

    def _moments(self, totals: NDArray[np.float64], seen: NDArray[np.bool_]) -> dict[str, Moments]:
        parts = [totals] if self.covariates is None else [totals, self.covariates]
        result = {}
        for index, name in enumerate(self.arm_names):
            selected = seen & (self.arms == index)
            result[name] = Moments.of(np.hstack([part[selected] for part in parts]))
        return result


def _checked(values: ArrayLike, length: int) -> NDArray[np.float64]:
    rows = np.asarray(values, np.float64)
    if rows.shape != (length, len(QUANTITIES)):
        raise InputError(
            f"values: found an array of shape {rows.shape}, expected {length} rows of {', '.join(QUANTITIES)}"
        )
    if not (invalid := ~(rows >= 0) | ~np.isfinite(rows)).any():
        return rows
    row, column = np.argwhere(invalid)[0]
    raise InputError(
        f"values: found {QUANTITIES[column]} of {rows[row, column]} in row {row}, expected a number of at least 0"
    )


def _by_user_and_day(
    users: NDArray[np.intp], days: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float64]]:
    order = np.lexsort((days, users))
    users, days, values = users[order], days[order], values[order]
    is_first = np.ones(len(users), bool)
    is_first[1:] = (users[1:] != users[:-1]) | (days[1:] != days[:-1])
    begins = np.flatnonzero(is_first)
    summed = np.add.reduceat(values, begins, axis=0) if len(begins) else values
    return users[begins], days[begins], summed


def _aligned(known: NDArray, users: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
    """Add up the pre-period by the users of the test."""
    ids = np.asarray(users)
    rows = _checked(values, len(ids))
    result = np.zeros((len(known), len(QUANTITIES)))
    if len(known) and len(ids):
        index = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        in_test = known[index] == ids
        np.add.at(result, index[in_test], rows[in_test])
    return result
