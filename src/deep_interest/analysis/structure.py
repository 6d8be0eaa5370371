"""Measures of what a model has learned: attention on related behaviours, movement of interest states, clusters of embeddings."""

from typing import Required, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.analysis.attribution import BehaviorAttention


class AttentionOnRelated(TypedDict, total=False):
    """Result of `attention_on_related`."""

    weight_share: float
    count_share: float
    auc: float
    samples: Required[int]


def attention_on_related(attention: BehaviorAttention, related: NDArray[np.bool_]) -> AttentionOnRelated:
    """Measure how much attention related behaviours get, over the samples with related and other behaviours.

    The absolute weight counts, because the sign of a weight without softmax is arbitrary.

    Args:
        attention: attention weights of ``P`` behaviours.
        related: ``(P,)`` whether each behaviour is related to its candidate.

    Returns:
        ``weight_share``: mean share of the weight on related behaviours; ``count_share``: mean share of related behaviours;
        ``auc``: mean probability that a related behaviour has more weight than another one of its sample; ``samples``: number
        of samples. Only ``samples`` if that is 0.
    """
    table = pd.DataFrame({"sample": attention.sample, "weight": attention.weight, "related": related})
    table = table[table.groupby("sample")["related"].transform("nunique") == 2]
    if table.empty:
        return {"samples": 0}
    size = table["weight"].abs()
    total = size.groupby(table["sample"]).sum()
    on_related = (size * table["related"]).groupby(table["sample"]).sum()
    rank = size.groupby(table["sample"]).rank()
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
    attention: BehaviorAttention, states: NDArray[np.floating], related: NDArray[np.bool_]
) -> dict[str, float]:
    """Measure how far the interest state moves on related behaviours and on others.

    Args:
        attention: attention weights of ``P`` behaviours.
        states: ``(P, H)`` state after each behaviour.
        related: ``(P,)`` whether each behaviour is related to its candidate.

    Returns:
        ``related`` and ``other``: mean Euclidean length of the step; ``ratio``: the first divided by the second.
    """
    first = np.r_[True, attention.sample[1:] != attention.sample[:-1]]
    previous = np.where(first[:, None], 0.0, np.roll(states, 1, axis=0))
    step = np.linalg.norm(states - previous, axis=1)
    steps = {"related": float(step[related].mean()), "other": float(step[~related].mean())}
    return steps | {"ratio": steps["related"] / steps["other"]}


def cluster_silhouette(
    vectors: NDArray[np.floating], groups: NDArray[np.integer], *, max_vectors: int = 2000
) -> float:
    """Return the mean silhouette of groups by cosine distance, from -1 to 1; random groups have about 0.

    Args:
        vectors: ``(n, D)`` embeddings.
        groups: ``(n,)`` group of each vector.
        max_vectors: only the first ones, up to this number, are used.

    Returns:
        The mean silhouette; NaN if there is one group only or every group has one vector.
    """
    from sklearn.metrics import silhouette_score  # noqa: PLC0415

    vectors, groups = vectors[:max_vectors], groups[:max_vectors]
    return (
        float(silhouette_score(vectors, groups, metric="cosine"))
        if 1 < len(np.unique(groups)) < len(groups)
        else float("nan")
    )
