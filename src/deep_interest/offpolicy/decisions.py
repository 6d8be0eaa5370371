"""The log of a policy: what was shown, with which probability, what it earned, and how probable it is under another policy."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from deep_interest.errors import InputError

Slate = Literal["item_position", "cascade", "whole"]


@dataclass(frozen=True)
class Decisions:
    """Impressions of a log, one in each slot of each request.

    Attributes:
        cluster: ``(N,)`` number of the unit that is independent of the others, from 0: the user, or the request.
        request: ``(N,)`` number of the request, from 0.
        slot: ``(N,)`` slot, from 1.
        reward: ``(N,)`` click (0 or 1) or revenue.
        propensity: ``(N,)`` probability with which the logging policy showed the item in the slot, in (0, 1].
        target: ``(N,)`` the same probability under the policy to evaluate, in [0, 1].
        expected: ``(N,)`` reward that the reward model expects of the target policy in the row's slot; None without a model.
        expected_shown: ``(N,)`` reward that the reward model expects of the item that was shown; None without a model.
    """

    cluster: NDArray[np.int64]
    request: NDArray[np.int64]
    slot: NDArray[np.int64]
    reward: NDArray[np.float64]
    propensity: NDArray[np.float64]
    target: NDArray[np.float64]
    expected: NDArray[np.float64] | None = None
    expected_shown: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not len(self.reward):
            raise InputError("decisions: found no rows, expected at least two units (users or requests)")
        if not ((self.propensity > 0) & (self.propensity <= 1)).all():
            raise InputError(
                "propensity: found a value outside (0, 1], expected the probability with which the item was shown"
            )
        if not ((self.target >= 0) & (self.target <= 1)).all():
            raise InputError(
                "target: found a value outside [0, 1], expected the probability under the policy to evaluate"
            )
        if (self.expected is None) != (self.expected_shown is None):
            raise InputError(
                "expected: found one of expected and expected_shown, expected both or none of them"
            )

    @property
    def ratio(self) -> NDArray[np.float64]:
        """Target probability divided by propensity, ``(N,)``."""
        return self.target / self.propensity


def slate_weights(decisions: Decisions, slate: Slate) -> NDArray[np.float64]:
    """Return the weight of each row, ``(N,)``.

    With the ratio ``ρ_k = π_B(item in slot k) / π_A(item in slot k)`` of the row in slot k of a request:

    - ``item_position``: ``ρ_k``; unbiased if a reward depends on the item and its slot only (Li et al., "Offline Evaluation of Ranking
      Policies with Click Models", KDD 2018, item-position estimator).
    - ``cascade``: ``ρ_1 ρ_2 … ρ_k``; unbiased if a reward depends on what is in the slot and above it, and probabilities are given what is
      above (McInerney et al., "Counterfactual Evaluation of Slate Recommendations with Sequential Reward Interactions", KDD 2020).
    - ``whole``: the product over all slots of the request; needs no assumption, and has the largest variance.

    Args:
        decisions: the log.
        slate: form of the weights; all are the same with one slot.
    """
    ratio = decisions.ratio
    if slate == "item_position":
        return ratio
    order = np.lexsort((decisions.slot, decisions.request))
    with np.errstate(divide="ignore"):
        logarithm = np.log(ratio[order])
    request = decisions.request[order]
    starts = np.flatnonzero(np.diff(request, prepend=request[0] - 1))
    lengths = np.diff(starts, append=len(request))
    total = np.cumsum(np.where(np.isfinite(logarithm), logarithm, 0.0))
    before = np.repeat(np.concatenate([[0.0], total])[starts], lengths)
    zeros = np.cumsum(~np.isfinite(logarithm))
    zeros_before = np.repeat(np.concatenate([[0], zeros])[starts], lengths)
    weights = np.where(zeros > zeros_before, 0.0, np.exp(total - before))
    if slate == "whole":
        weights = np.repeat(weights[starts + lengths - 1], lengths)
    found = np.empty_like(weights)
    found[order] = weights
    return found
