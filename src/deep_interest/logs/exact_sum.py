"""Sums that do not depend on the order of the numbers: the exact sum, rounded once."""

from fractions import Fraction

import numpy as np

_EXPONENTS = 2200  # of float64, from -1074 to 1024, shifted by _SHIFT
_SHIFT = 1100
_MANTISSA = 53
_LOW = 26  # bits of a mantissa that are added separately, so that 2^36 numbers fit into int64


class ExactSum:
    """Exact sum of finite float64 numbers, added in blocks."""

    def __init__(self) -> None:
        self._high, self._low = np.zeros(_EXPONENTS, np.int64), np.zeros(_EXPONENTS, np.int64)
        self.count = 0

    def add(self, numbers: np.ndarray) -> None:
        """Add numbers ``(n,)``."""
        fractions, exponents = np.frexp(numbers.astype(np.float64, copy=False))
        mantissas = np.ldexp(fractions, _MANTISSA).astype(np.int64)
        np.add.at(self._high, exponents + _SHIFT, mantissas >> _LOW)
        np.add.at(self._low, exponents + _SHIFT, mantissas & ((1 << _LOW) - 1))
        self.count += len(numbers)

    @property
    def mean(self) -> float:
        """Sum of the numbers divided by their count, correctly rounded."""
        total = sum(
            ((int(self._high[index]) << _LOW) + int(self._low[index])) << int(index)
            for index in np.flatnonzero(self._high | self._low)
        )
        return float(Fraction(total, self.count << (_SHIFT + _MANTISSA)))
