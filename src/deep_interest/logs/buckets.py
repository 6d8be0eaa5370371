"""Numbers as buckets: between fixed borders, or between quantiles of what training knows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field

Borders = tuple[float, ...]


def _rising(borders: Borders) -> Borders:
    if any(low >= high for low, high in pairwise(borders)):
        raise ValueError(f"borders must rise, found {list(borders)}")
    return borders


Buckets = Annotated[int, Field(ge=2)] | Annotated[Borders, Field(min_length=1), AfterValidator(_rising)]
"""A number of buckets of equal size, or their inner borders."""


def bucketise(
    column: pd.Series, buckets: int | Sequence[float], known: np.ndarray | None = None
) -> pd.Series:
    """The bucket of each number: 0 below the first border, k from the k-th border on; missing stays missing.

    Args:
        column: numbers.
        buckets: inner borders, or a number of buckets, whose borders are then quantiles.
        known: ``(n,)`` bool, the rows that quantiles are taken of; all if None.
    """
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    there = ~np.isnan(numbers)
    if isinstance(buckets, int):
        fitted = numbers[there if known is None else there & known]
        shares = np.arange(1, buckets) / buckets
        borders = np.unique(np.quantile(fitted, shares)) if len(fitted) else np.empty(0)
    else:
        borders = np.asarray(buckets, np.float64)
    bucket = np.searchsorted(borders, numbers, side="right")
    return pd.Series(bucket, index=column.index, dtype="Int64").mask(~there)
