"""Whether a model has found what the simulator planted: attention on related behaviours, items in clusters, interests that move."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.analysis.attribution import BehaviorAttention


def attention_on_related(pairs: BehaviorAttention, related: NDArray[np.bool_]) -> dict[str, float]:
    """How attention falls on related behaviours.

    Args:
        pairs: behaviours of samples with their weights.
        related: ``(P,)`` which behaviours are related to their candidate.

    Returns:
        ``weight_share``: share of the (absolute) attention weight on related behaviours, ``count_share``: their share among the
        behaviours, ``auc``: chance that a related behaviour has more (absolute) weight than another one of the same sample, over the samples
        that have both kinds; ``samples``: how many these are.
    """
    table = pd.DataFrame({"sample": pairs.sample, "weight": pairs.weight, "related": related})
    both = table.groupby("sample")["related"].transform("nunique") == 2
    table = table[both]
    if table.empty:
        return {"samples": 0}
    size = table["weight"].abs()
    total = size.groupby(table["sample"]).sum()
    on_related = (size * table["related"]).groupby(table["sample"]).sum()
    rank = size.groupby(table["sample"]).rank()  # the sign of a weight without softmax is free
    grouped = (
        pd.DataFrame({"rank": rank * table["related"], "related": table["related"], "one": 1})
        .groupby(table["sample"])
        .sum()
    )
    positives, negatives = grouped["related"], grouped["one"] - grouped["related"]
    auc = (grouped["rank"] - positives * (positives + 1) / 2) / (positives * negatives)
    return {
        "weight_share": float((on_related / total).mean()),
        "count_share": float(table.groupby("sample")["related"].mean().mean()),
        "auc": float(auc.mean()),
        "samples": len(grouped),
    }


def state_movement(
    pairs: BehaviorAttention, states: NDArray[np.floating], related: NDArray[np.bool_]
) -> dict[str, float]:
    """How far the evolving interest moves on related behaviours, and on others.

    Args:
        pairs: behaviours of samples.
        states: ``(P, H)`` the state after each.
        related: ``(P,)`` which behaviours are related to their candidate.

    Returns:
        ``related`` and ``other``: mean Euclidean step of the state, and their ``ratio``.
    """
    first = np.r_[True, pairs.sample[1:] != pairs.sample[:-1]]
    before = np.where(first[:, None], 0.0, np.roll(states, 1, axis=0))
    step = np.linalg.norm(states - before, axis=1)
    moved = {"related": float(step[related].mean()), "other": float(step[~related].mean())}
    return moved | {"ratio": moved["related"] / moved["other"]}


def cluster_silhouette(
    vectors: NDArray[np.floating], groups: NDArray[np.integer], *, most: int = 2000
) -> float:
    """Mean silhouette of the groups in (cosine) space, from -1 to 1; 0 is what groups by chance have (a little below for small groups).

    Args:
        vectors: ``(n, D)``.
        groups: ``(n,)``.
        most: vectors that are taken at most, the first ones.
    """
    from sklearn.metrics import silhouette_score  # noqa: PLC0415

    vectors, groups = vectors[:most], groups[:most]
    return (
        float(silhouette_score(vectors, groups, metric="cosine"))
        if 1 < len(np.unique(groups)) < len(groups)
        else float("nan")
    )
