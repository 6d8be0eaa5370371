"""How soon clicks arrive: the distribution of their delays, from a log in which late clicks have not arrived yet.

A click is in the log of a night only if its delay is less than the age of its impression, so young impressions show short delays
alone: the delays are right-truncated. Their distribution function is estimated by the product-limit estimator for truncated data
(Lynden-Bell 1971; Lagakos, Barraj and De Gruttola 1988 in reversed time). With the distinct delays d_1 < … < d_K of the clicks that
are there, ::

    F(x) = Π_{d_k > x} (1 - m_k / n_k)        m_k = number of clicks with the delay d_k
                                              n_k = number of clicks with a delay of at most d_k and an impression older than d_k

It needs no click probabilities, and no parametric form. A log determines F up to some delay only, relative to its value there: clicks that
take longer than it reaches back cannot be seen in it. Where few clicks could have been seen (n_k below `AT_LEAST`), one of them changes
all of F, so F ends at the longest delay with enough of them, and later clicks are neglected.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.errors import InputError

AT_LEAST = 100  # clicks that a delay is compared with
_SMALLEST = 1e-6  # of F, so that the likelihood of a click is never 0


@dataclass(frozen=True)
class Arrivals:
    """Estimated distribution of the delays.

    Attributes:
        delays: ``(K,)`` distinct delays of clicks, ascending.
        shares: ``(K,)`` share of the clicks that have at most this delay; the last one is 1.
        clicks: number of clicks from which it was estimated.
    """

    delays: NDArray[np.int64]
    shares: NDArray[np.float64]
    clicks: int

    def __call__(self, age: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that a click on an impression of this age has arrived: its delay is less than the age."""
        found = np.searchsorted(self.delays, np.asarray(age), side="left")
        return np.concatenate([[_SMALLEST], np.maximum(self.shares, _SMALLEST)])[found]

    def quantile(self, share: float) -> int:
        """Return the smallest delay that at least this share of the clicks does not exceed."""
        return int(self.delays[np.searchsorted(self.shares, share - 1e-12)])


def estimate_arrivals(delay: ArrayLike, age: ArrayLike, *, at_least: int = AT_LEAST) -> Arrivals:
    """Estimate how soon clicks arrive.

    Args:
        delay: ``(n,)`` time from the impression to the click, of the clicks that have arrived.
        age: ``(n,)`` time from the impression to the night; greater than the delay.
        at_least: smallest n_k of the longest delay; if no delay has so many, F ends at the longest one of all.

    Raises:
        InputError: the log has no clicks.
    """
    delay, age = np.asarray(delay, np.int64), np.asarray(age, np.int64)
    if not len(delay):
        raise InputError(
            "click_time: no click has arrived before the night, so how soon clicks arrive is unknown; check the column that "
            "source.impressions.click_time names"
        )
    assert (age > delay).all()
    delays, number = np.unique(delay, return_counts=True)
    no_longer = np.cumsum(number)
    younger = np.searchsorted(
        np.sort(age), delays, side="right"
    )  # impressions that are not older than the delay
    at_risk = no_longer - younger
    enough = np.flatnonzero(at_risk >= at_least)
    if len(enough):
        last = enough[-1] + 1
        delays, number, at_risk = delays[:last], number[:last], at_risk[:last]
    survives = np.log1p(
        -number[1:] / at_risk[1:], where=number[1:] < at_risk[1:], out=np.full(len(delays) - 1, -np.inf)
    )
    shares = np.exp(np.concatenate([np.cumsum(survives[::-1])[::-1], [0.0]]))
    return Arrivals(delays, shares, int(number.sum()))
