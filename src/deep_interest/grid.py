"""The grid: which datasets and models there are, so that each cell's pipeline has a name before parameters load."""

from dataclasses import dataclass
from typing import Literal

from deep_interest.models.registry import MODELS

Source = Literal["amazon", "movielens", "tables"]


@dataclass(frozen=True)
class DatasetRow:
    """One dataset.

    Attributes:
        source: the reader; ``tables`` are canonical tables as Parquet files.
        impressions: the source has impressions and profiles; its protocol is ``by_day``.
    """

    source: Source
    impressions: bool = False


DATASETS: dict[str, DatasetRow] = {
    "simulated": DatasetRow("tables", impressions=True),
    "own": DatasetRow("tables", impressions=True),
    "movielens_100k": DatasetRow("movielens"),
    "movielens_latest_small": DatasetRow("movielens"),
    "movielens_1m": DatasetRow("movielens"),
    "movielens_20m": DatasetRow("movielens"),
    "movielens_25m": DatasetRow("movielens"),
    "movielens_32m": DatasetRow("movielens"),
    "amazon_toys": DatasetRow("amazon"),
    "amazon_beauty": DatasetRow("amazon"),
    "amazon_sports": DatasetRow("amazon"),
    "amazon_electronics": DatasetRow("amazon"),
    "amazon_books": DatasetRow("amazon"),
}

__all__ = ["DATASETS", "MODELS", "DatasetRow", "Source"]
