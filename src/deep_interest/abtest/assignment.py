"""Was the assignment as planned? The sample-ratio check."""

from collections.abc import Mapping
from dataclasses import dataclass

from scipy.special import chdtrc

from deep_interest.errors import InputError

THRESHOLD = 0.001
"""p-value below which the arms do not have the planned sizes (Fabijan et al., "Diagnosing Sample Ratio Mismatch", KDD 2019)."""


@dataclass(frozen=True)
class SampleRatio:
    """Result of the sample-ratio check.

    Attributes:
        users: users by arm.
        expected: expected users by arm.
        p_value: p-value of the chi-square test of the planned split.
    """

    users: dict[str, int]
    expected: dict[str, float]
    p_value: float

    @property
    def is_as_planned(self) -> bool:
        """Whether the numbers of users agree with the planned split; if not, no result of the test can be trusted."""
        return self.p_value >= THRESHOLD


def sample_ratio(users: Mapping[str, int], split: Mapping[str, float]) -> SampleRatio:
    """Test whether the numbers of users agree with the planned split.

    Args:
        users: users by arm.
        split: planned share of each arm, in any unit.

    Raises:
        InputError: different arms, a share that is not above 0, fewer than two arms, or no user.

    Example:
        >>> sample_ratio({"base": 5000, "din": 4700}, {"base": 1, "din": 1}).is_as_planned
        True
        >>> sample_ratio({"base": 50000, "din": 48000}, {"base": 1, "din": 1}).is_as_planned
        False
    """
    if set(users) != set(split) or len(split) < 2:
        raise InputError(
            f"split: found the arms {', '.join(split)} for users of the arms {', '.join(users)}; expected the same arms, at least two"
        )
    if not all(share > 0 for share in split.values()):
        raise InputError(f"split: found {dict(split)}, expected shares above 0")
    total, shares = sum(users.values()), sum(split.values())
    if not total:
        raise InputError("users: found no user in any arm")
    expected = {arm: total * share / shares for arm, share in split.items()}
    statistic = sum((users[arm] - expected[arm]) ** 2 / expected[arm] for arm in split)
    return SampleRatio(dict(users), expected, float(chdtrc(len(split) - 1, statistic)))
