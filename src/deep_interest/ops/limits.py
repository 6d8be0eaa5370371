"""Limits of operations that options depend on, without importing torch."""

from typing import Literal

MAX_BITS = 63  # of a fingerprint, an int64 that is never negative

TablePrecision = Literal["float32", "float16", "bfloat16", "int8"]
"""Precision of the embedding tables of a model that serves, see `ops.packed_tables`."""

AttentionPrecision = Literal["float32", "bfloat16"]
"""Precision of the factors in DIN's activation unit of a model that serves, see `ops.attention_bfloat16`."""
