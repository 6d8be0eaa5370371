"""What a test set can show: the smallest difference in GAUC, and how many users or days a smaller one needs.

A difference is found if its interval excludes 0. Its variance (`significance`) has a part that falls with the number of users, and a part
that only more fits reduce: the main effect of the seed, which moves all users alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.seed_variance import SeedVariance
from deep_interest.evaluation.significance import variance_parts

DIFFERENCES = (0.001, 0.002, 0.005)


@dataclass(frozen=True)
class Power:
    """What a test set can show about two models.

    Attributes:
        users: users with both classes.
        of_users: variance of the difference that falls in proportion to the number of users.
        of_seeds: variance of the difference that only more fits reduce.
        power: probability with which a difference is found.
        level: probability with which one is found where there is none.
    """

    users: int
    of_users: float
    of_seeds: float
    power: float
    level: float

    @property
    def smallest_difference(self) -> float:
        """The smallest true difference in GAUC that is found with the probability ``power``."""
        return self._quantiles * (self.of_users + self.of_seeds) ** 0.5

    def factor(self, difference: float) -> float:
        """Return how many times as many users a difference needs; below 1 if fewer are enough, infinite if only more fits help.

        Args:
            difference: true difference in GAUC.
        """
        _check_difference(difference)
        allowed = (difference / self._quantiles) ** 2 - self.of_seeds
        if allowed <= 0:
            return float("inf") if self.of_users or self.of_seeds else 0.0
        return self.of_users / allowed

    def users_for(self, difference: float) -> float:
        """Return how many users with both classes a difference needs in all; infinite if only more fits help."""
        return self.users * self.factor(difference)

    def days_for(self, difference: float, *, days: float) -> float:
        """Return how many days of test set a difference needs if every day has as many new users.

        Args:
            difference: true difference in GAUC.
            days: days of this test set.
        """
        return days * self.factor(difference)

    @property
    def _quantiles(self) -> float:
        return float(ndtri(1 - self.level / 2) + ndtri(self.power))


def power_of(
    ours: UserAUC,
    base: UserAUC,
    *,
    seeds: Sequence[SeedVariance] = (),
    power: float = 0.8,
    level: float = 0.05,
) -> Power:
    """Estimate what a test set can show about two models, from their AUCs by user.

    Args:
        ours: AUC by user of the one model, averaged over its fits (`user_aucs`).
        base: AUC by user of the other.
        seeds: seed variance of each of the two models; left out, the result is about the fits at hand.
        power: probability with which a difference is to be found, in (level, 1).
        level: level of the test, in (0, 1).

    Raises:
        InputError: different users, fewer than two users, or a probability out of range.

    Example:
        >>> import numpy as np
        >>> from deep_interest.evaluation.metrics import per_user_auc
        >>> users, labels = np.repeat(np.arange(400), 10), np.tile([1, 0], 2000)
        >>> random = np.random.default_rng(0)
        >>> base = labels + random.normal(0, 2, 4000)
        >>> ours = labels + random.normal(0, 2, 4000)
        >>> found = power_of(per_user_auc(users, labels, ours), per_user_auc(users, labels, base))
        >>> print(f"{found.smallest_difference:.3f}, {found.factor(0.005):.0f} times the users for 0.005")
        0.035, 49 times the users for 0.005
    """
    if not 0 < level < power < 1:
        raise InputError(
            f"power, level: found {power} and {level}, expected 0 < level < power < 1, as 0.8 and 0.05"
        )
    of_users, of_seeds = variance_parts(ours, base, seeds=seeds)
    return Power(len(ours.users), of_users, of_seeds, power, level)


def _check_difference(difference: float) -> None:
    if not (difference > 0 and np.isfinite(difference)):
        raise InputError(f"difference: found {difference}, expected a number above 0, as 0.002")
