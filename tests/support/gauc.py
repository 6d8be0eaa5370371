"""GAUC by its definition."""

import numpy as np


def pairwise_gauc(impressions, score):
    """DIN eq. 10 by comparing all pairs of each user; ties count half."""
    total = weight = 0.0
    for rows in impressions.groupby("user").groups.values():
        label = impressions.label.to_numpy()[rows]
        positive, negative = score[rows][label == 1], score[rows][label == 0]
        if len(positive) and len(negative):
            correct = np.sign(positive[:, None] - negative[None, :]).mean() / 2 + 0.5
            total, weight = total + correct * len(rows), weight + len(rows)
    return total / weight
