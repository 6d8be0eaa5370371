"""Baseline that a first version has to beat: the click-through rate of each item, the same for all users."""

import pandas as pd
from numpy import float64
from numpy.typing import NDArray

_PRIOR_IMPRESSIONS = (
    20.0  # an item without impressions has the overall rate, one with 20 the mean of that and its own
)


def popularity_scores(train: pd.DataFrame, held_out: pd.DataFrame) -> NDArray[float64]:
    """Score each held-out impression by its item's smoothed click-through rate on the training days.

    ``(clicks + k · rate) / (impressions + k)`` with the overall ``rate`` and k = 20.

    Args:
        train: ``item``, ``label``, one row per training impression.
        held_out: ``item``, one row per held-out impression.

    Returns:
        ``(n,)`` in [0, 1], in the order of ``held_out``.
    """
    rate = float(train["label"].mean())
    items = train.groupby("item")["label"].agg(["sum", "count"])
    smoothed = (items["sum"] + _PRIOR_IMPRESSIONS * rate) / (items["count"] + _PRIOR_IMPRESSIONS)
    return held_out["item"].map(smoothed).fillna(rate).to_numpy(float64)
