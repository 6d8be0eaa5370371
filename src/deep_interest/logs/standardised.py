"""Standardised numeric features: z = (x - mean) / std of the training rows, stored as a fixed-point code.

Code 0 is a missing value; code k > 0 is ``z = (k - 1) / 4096 - 8``, so that z is limited to [-8, 8] and rounded to a
multiple of 1/4096. The codes are int32 like those of all other features, but they are not the rows of an embedding table: a model
has a vector for a missing value (row 0) and a vector that is multiplied by z (row 1).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from deep_interest.logs.exact_sum import ExactSum

Blocks = Callable[[], Iterable[tuple[pd.Series, np.ndarray | None]]]
"""Function that returns the blocks of a column: values ``(n,)``, and which rows are known ``(n,)``, all if None."""

LIMIT = 8
"""Largest absolute value of z."""
STEPS = 4096
"""Number of codes per unit of z."""
CODES = 2 + 2 * LIMIT * STEPS
"""Number of codes, including the code 0 of a missing value."""
ROWS = 2
"""Rows of the table of a standardised feature."""


class Standardisation(NamedTuple):
    """Mean and standard deviation of the training rows of a feature; a standard deviation of 0 makes every z 0."""

    mean: float
    std: float

    @classmethod
    def fit(cls, column: pd.Series, known: np.ndarray | None = None) -> "Standardisation":
        """Compute mean and standard deviation.

        Args:
            column: numbers ``(n,)``; missing and infinite ones are ignored.
            known: ``(n,)`` bool, rows to use; all if None.
        """
        return cls.fit_blocks(lambda: [(column, known)])

    @classmethod
    def fit_blocks(cls, blocks: Blocks) -> "Standardisation":
        """Compute mean and standard deviation of a column in blocks; the result does not depend on their order.

        Args:
            blocks: function that returns the blocks; it is called twice.
        """
        total, low, high = ExactSum(), np.inf, -np.inf
        for fitted in _finite(blocks):
            total.add(fitted)
            low, high = min(low, float(fitted.min())), max(high, float(fitted.max()))
        if not total.count:
            return cls(0.0, 0.0)
        if low == high:  # the computed deviation of equal numbers may differ from 0
            return cls(low, 0.0)
        mean, squares = total.mean, ExactSum()
        for fitted in _finite(blocks):
            with np.errstate(over="ignore"):
                deviations = np.square(fitted - mean)
            if not np.isfinite(deviations).all():
                return cls(0.0, 0.0)
            squares.add(deviations)
        return cls(mean, float(np.sqrt(squares.mean)))

    def encode(self, column: pd.Series) -> np.ndarray:
        """Return the codes of a column of numbers, ``(n,)`` int32."""
        numbers = _numbers(column)
        missing = np.isnan(numbers)
        if self.std:
            with np.errstate(over="ignore"):
                z = (np.where(missing, self.mean, numbers) - self.mean) / self.std
        else:
            z = np.zeros(len(numbers))
        codes = 1 + np.rint((z.clip(-LIMIT, LIMIT) + LIMIT) * STEPS).astype(np.int32)
        return np.where(missing, 0, codes).astype(np.int32)


def decode(codes: np.ndarray, *, missing: float = 0.0) -> np.ndarray:
    """Return z of each code, float32.

    Args:
        codes: integers of any shape.
        missing: value of the code 0.
    """
    return np.where(codes > 0, (codes - 1) / STEPS - LIMIT, missing).astype(np.float32)


def _finite(blocks: Blocks) -> Iterator[np.ndarray]:
    """Yield the finite numbers of the known rows of each block that has any."""
    for column, known in blocks():
        numbers = _numbers(column)
        used = np.isfinite(numbers)
        fitted = numbers[used if known is None else used & known]
        if len(fitted):
            yield fitted


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(np.float64, na_value=np.nan)
