"""Limits of operations that options of models depend on, without importing torch."""

MAX_BITS = 63  # of a fingerprint, an int64 that is never negative
