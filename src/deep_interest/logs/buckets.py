"""Buckets of numeric features: between fixed borders, or between quantiles of the training rows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field

Borders = tuple[float, ...]


def _rising(borders: Borders) -> Borders:
    if any(low >= high for low, high in pairwise(borders)):
        raise ValueError(f"borders must be increasing, found {list(borders)}")
    return borders


Buckets = Annotated[int, Field(ge=2)] | Annotated[Borders, Field(min_length=1), AfterValidator(_rising)]
"""Number of buckets with equally many rows, or the inner borders of the buckets."""


def bucketise(column: pd.Series, borders: Sequence[float]) -> pd.Series:
    """Return the bucket of each number: 0 below the first border, k from the k-th border on; missing values stay missing."""
    numbers = _numbers(column)
    bucket = np.searchsorted(np.asarray(borders, np.float64), numbers, side="right")
    return pd.Series(bucket, index=column.index, dtype="Int64").mask(np.isnan(numbers))


def borders_of(
    column: pd.Series, buckets: int | Sequence[float], known: np.ndarray | None = None
) -> tuple[float, ...]:
    """Return the inner borders of the buckets of a column.

    Args:
        column: numbers.
        buckets: the borders, or a number of buckets with quantiles as borders.
        known: ``(n,)`` bool, rows to compute quantiles from; all if None.
    """
    if not isinstance(buckets, int):
        return tuple(float(border) for border in buckets)
    numbers = _numbers(column)
    present = ~np.isnan(numbers)
    fitted = numbers[present if known is None else present & known]
    shares = np.arange(1, buckets) / buckets
    return tuple(np.unique(np.quantile(fitted, shares)).tolist()) if len(fitted) else ()


def borders_of_counts(column: pd.Series, rows: np.ndarray, buckets: int) -> tuple[float, ...]:
    """Return the borders that `borders_of` returns if each number occurs ``rows (n,)`` times."""
    numbers = _numbers(column)
    present = ~np.isnan(numbers)
    order = np.argsort(numbers[present], kind="stable")
    values, ends = numbers[present][order], np.cumsum(rows[present][order])
    if not len(values):
        return ()
    shares = np.arange(1, buckets) / buckets * (ends[-1] - 1)
    before = np.floor(shares)
    pairs = [
        values[np.searchsorted(ends, np.minimum(index, ends[-1] - 1), side="right")]
        for index in (before, before + 1)
    ]
    quantiles = [
        np.quantile(np.array([low, high]), share)
        for low, high, share in zip(*pairs, shares - before, strict=True)
    ]
    return tuple(np.unique(quantiles).tolist())


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(np.float64, na_value=np.nan)
