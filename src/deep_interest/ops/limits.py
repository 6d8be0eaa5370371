"""Limits of operations that options depend on, without importing torch."""

from typing import Literal

MAX_BITS = 63  # of a fingerprint, an int64 that is never negative

TablePrecision = Literal["float32", "float16", "bfloat16", "int8"]
"""Precision of the embedding tables of a model that serves, see `ops.packed_tables`."""
