"""Metrics published by others, shown next to ours where dataset and protocol are the same.

"Amazon Electronics" is a different task in each paper: DIN ranks each user's last review after training on all earlier
ones (``next_item``); DIEN uses only each user's last review and splits by user (``last_item``), with other negatives.
Their metrics must not be compared with each other, so the protocol is part of the key.
"""

from dataclasses import dataclass
from typing import Literal

Metric = Literal["gauc", "auc"]  # papers write "AUC" for both; DIN means its eq. 10, the user-weighted one


@dataclass(frozen=True)
class PublishedMetric:
    """One value from one paper.

    Attributes:
        metric: ``gauc`` or ``auc``.
        value: value as printed.
        source: paper and table, and how the value was obtained where that matters.
    """

    metric: Metric
    value: float
    source: str


DIN = "DIN, KDD 2018, Table 3; the best of many evaluations on the test set"
DIN_CORRECTED = (
    "Correction by DIN's authors, README of their code (attention with softmax); best on the test set"
)
DIEN = "DIEN, Table 2"
DIEN_ABLATION = "DIEN, Table 4"
DIEN_LATER = "DIEN, later AAAI print, on a different split"
BARS = "BARS AmazonElectronics_x1; validated on the test set, so an upper bound"
BARS_DNN = "BARS AmazonElectronics_x1, model DNN; validated on the test set, so an upper bound"
BARS_DIEN = "BARS AmazonElectronics_x1, model DIEN without auxiliary loss; validated on the test set, so an upper bound"

DIN_MOVIELENS = ("movielens_20m", "rated")
DIN_ELECTRONICS = ("amazon_electronics", "next_item")
DIEN_ELECTRONICS = ("amazon_electronics", "last_item")
DIEN_BOOKS = ("amazon_books", "last_item")


def published_metrics(dataset: str, protocol: str) -> dict[str, list[PublishedMetric]]:
    """Return the published metrics of one dataset under one protocol, by model key.

    Args:
        dataset: key of the dataset, such as ``amazon_electronics``.
        protocol: ``next_item``, ``last_item``, ``rated`` or ``by_day``.

    Returns:
        Metrics by model key; empty if none are known.
    """
    return {model: metrics for (d, p, model), metrics in PUBLISHED.items() if (d, p) == (dataset, protocol)}


# Dataset, protocol, metric, source, and the values by model key as printed.
_TABLES: list[tuple[str, str, Metric, str, dict[str, float]]] = [
    (*DIN_MOVIELENS, "gauc", DIN, {"lr": 0.7263, "base": 0.7300, "wide_deep": 0.7304, "pnn": 0.7321}),
    (*DIN_MOVIELENS, "gauc", DIN, {"deepfm": 0.7324, "din": 0.7337, "din_dice": 0.7348}),
    (*DIN_ELECTRONICS, "gauc", DIN, {"lr": 0.7742, "base": 0.8624, "wide_deep": 0.8637, "pnn": 0.8679}),
    (*DIN_ELECTRONICS, "gauc", DIN, {"deepfm": 0.8683, "din": 0.8818, "din_dice": 0.8871}),
    (*DIN_ELECTRONICS, "gauc", DIN_CORRECTED, {"din": 0.8698, "din_dice": 0.8711}),
    (*DIN_ELECTRONICS, "gauc", BARS, {"din_softmax": 0.883526, "bst": 0.884108, "dmin": 0.885636}),
    (*DIN_ELECTRONICS, "auc", BARS, {"din_softmax": 0.886028, "bst": 0.886424, "dmin": 0.887665}),
    (*DIN_ELECTRONICS, "gauc", BARS, {"fm": 0.849405, "deepfm": 0.878890}),
    (*DIN_ELECTRONICS, "auc", BARS, {"fm": 0.848518, "deepfm": 0.881583}),
    (*DIN_ELECTRONICS, "gauc", BARS_DNN, {"base": 0.878957}),
    (*DIN_ELECTRONICS, "auc", BARS_DNN, {"base": 0.881546}),
    (*DIN_ELECTRONICS, "gauc", BARS_DIEN, {"gru_augru": 0.885625}),
    (*DIN_ELECTRONICS, "auc", BARS_DIEN, {"gru_augru": 0.888777}),
    (*DIEN_ELECTRONICS, "auc", DIEN, {"base": 0.8538, "wide_deep": 0.8546, "pnn": 0.8582, "din": 0.8608}),
    (*DIEN_ELECTRONICS, "auc", DIEN, {"gru_attention": 0.8640, "dien": 0.9030}),
    (*DIEN_ELECTRONICS, "auc", DIEN_ABLATION, {"gru_aigru": 0.8663, "gru_agru": 0.8666, "gru_augru": 0.8675}),
    (*DIEN_ELECTRONICS, "auc", DIEN_LATER, {"base": 0.7435, "din": 0.7603, "dien": 0.7792}),
    (*DIEN_BOOKS, "auc", DIEN, {"base": 0.8846, "wide_deep": 0.8656, "pnn": 0.8935, "din": 0.8974}),
    (*DIEN_BOOKS, "auc", DIEN, {"gru_attention": 0.8993, "dien": 0.9281}),
    (*DIEN_BOOKS, "auc", DIEN_ABLATION, {"gru_aigru": 0.8994, "gru_agru": 0.8993, "gru_augru": 0.9021}),
    (*DIEN_BOOKS, "auc", DIEN_LATER, {"base": 0.7686, "din": 0.7880, "dien": 0.8453}),
]


def _by_key() -> dict[tuple[str, str, str], list[PublishedMetric]]:
    metrics: dict[tuple[str, str, str], list[PublishedMetric]] = {}
    for dataset, protocol, metric, source, values in _TABLES:
        for model, value in values.items():
            metrics.setdefault((dataset, protocol, model), []).append(PublishedMetric(metric, value, source))
    return metrics


PUBLISHED: dict[tuple[str, str, str], list[PublishedMetric]] = _by_key()  # by dataset, protocol and model key
