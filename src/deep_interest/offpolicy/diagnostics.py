"""Is the log of A fit to answer for B? Overlap of the two policies, validity of the propensities, and reasons to refuse.

The rules of `Diagnostics.refusals` were chosen on simulated logs (`benchmarks/ope_levels.py --seed 1`), and are checked there on others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_interest.offpolicy.decisions import Decisions
from deep_interest.offpolicy.estimators import Estimate

FEWEST_REWARDS = 50.0  # effective number of users with a reward
LARGEST_SHARE = 0.1  # of a user in the estimate
MEAN_WEIGHT_ERRORS = 2.5  # standard errors by which the mean weight may miss 1
MEAN_WEIGHT_TOLERANCE = 0.15  # by which it may miss 1 in any case
MOST_UNSEEN = 0.05  # of B's probability on items that the log never has in the slot
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Diagnostics:
    """What the estimates rest on.

    Attributes:
        rows, users, rewards: numbers of rows, of users (or requests), and of rows with a reward.
        effective_rows: effective sample size ``(Σ w)² / Σ w²``.
        effective_rewards: the same of the weighted rewards of users, ``(Σ_u s_u)² / Σ_u s_u²`` with ``s_u`` the sum of ``w r`` of a user: how
            many users with equal weights would give as good an estimate.
        expected_rewards: effective sample size times the share of rows with a reward: the same if rewards did not depend on the weights. It
            counts what rare rows with large weights would need, also if none of them has a reward so far.
        mean_weight, mean_weight_error: mean of the weights and its standard error over users. The mean is 1 if A shows all that B shows, and
            propensities and target probabilities are right.
        largest_weight: largest weight.
        largest_share: largest share of a user in the sum of ``w r``.
        unseen: share of B's probability on items that the log has never in the slot; NaN if B's distribution is not known.
    """

    rows: int
    users: int
    rewards: int
    effective_rows: float
    effective_rewards: float
    expected_rewards: float
    mean_weight: float
    mean_weight_error: float
    largest_weight: float
    largest_share: float
    unseen: float = float("nan")

    @property
    def refusals(self) -> list[str]:
        """Reasons why the estimates must not be used; empty if there are none."""
        found = []
        gap = abs(self.mean_weight - 1)
        if (
            gap > MEAN_WEIGHT_ERRORS * self.mean_weight_error and gap > _ROUNDING
        ) or gap > MEAN_WEIGHT_TOLERANCE:
            found.append(
                f"the mean weight is {self.mean_weight:.3f} ± {self.mean_weight_error:.3f} and should be 1: the log lacks what B shows"
                if self.mean_weight < 1
                else f"the mean weight is {self.mean_weight:.3f} ± {self.mean_weight_error:.3f} and should be 1: the propensities or the "
                "target probabilities are wrong, or rare rows have huge weights"
            )
        if self.unseen > MOST_UNSEEN:
            found.append(
                f"{self.unseen:.1%} of what B would show is never in that slot in the log, expected at most {MOST_UNSEEN:.0%}"
            )
        fewest = min(self.effective_rewards, self.expected_rewards)
        if fewest < FEWEST_REWARDS:
            found.append(
                f"the log is worth {fewest:.0f} rewards with equal weights, expected at least {FEWEST_REWARDS:.0f}: too few rewards of what B "
                "shows and A rarely shows"
            )
        if self.largest_share > LARGEST_SHARE:
            found.append(
                f"one user makes {self.largest_share:.0%} of the estimate, expected at most {LARGEST_SHARE:.0%}"
            )
        return found


def diagnose(
    decisions: Decisions, weights: NDArray[np.float64], *, unseen: float = float("nan")
) -> Diagnostics:
    """Summarise what the estimates of a log rest on.

    Args:
        decisions: the log.
        weights: ``(N,)`` weight of each row, see `decisions.slate_weights`.
        unseen: share of the target policy's probability on items that the log has never in the slot.
    """
    mean = float(weights.mean())
    spread = Estimate.of(mean, weights - mean, decisions.cluster)
    rewards = np.bincount(decisions.cluster, weights=weights * decisions.reward).astype(np.float64)
    total, rewarded = float(rewards.sum()), int((decisions.reward > 0).sum())
    effective_rows = effective_number(weights)
    return Diagnostics(
        rows=len(weights),
        users=int((np.bincount(decisions.cluster) > 0).sum()),
        rewards=rewarded,
        effective_rows=effective_rows,
        effective_rewards=effective_number(rewards),
        expected_rewards=effective_rows * rewarded / len(weights),
        mean_weight=mean,
        mean_weight_error=spread.error,
        largest_weight=float(weights.max()),
        largest_share=float(rewards.max()) / total if total > 0 else 1.0,
        unseen=unseen,
    )


def effective_number(weights: NDArray[np.float64]) -> float:
    """Return ``(Σ w)² / Σ w²``, the number of equal weights that would average as well; 0 without a weight.

    Example:
        >>> import numpy as np
        >>> effective_number(np.array([1.0, 1.0, 1.0, 0.0])), effective_number(np.array([3.0, 1.0]))
        (3.0, 1.6)
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0
