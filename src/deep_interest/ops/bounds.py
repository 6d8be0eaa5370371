"""Bounds checks: kernels index memory without checks of their own, so the indices are checked before."""

import numpy as np

from deep_interest.errors import InputError
from deep_interest.ops.kernels import bounds as kernels
from deep_interest.ops.runtime.engine import current_engine


def check_codes(codes: np.ndarray, size: int, field: str) -> None:
    """Check that codes index a table.

    Args:
        codes: ``(n,)`` integers.
        size: number of rows of the table.
        field: name of the field in the error message.

    Raises:
        InputError: a code is negative or not below ``size``.
    """
    position = _first_out_of_range(codes, size)
    if position >= 0:
        raise InputError(
            f"{field}: code {codes[position]} at position {position} is outside the table of {size} rows; expected "
            f"0 to {size - 1}. Encode the values with the vocabulary of the model: a value that it does not contain "
            "has code 0"
        )


def check_offsets(offsets: np.ndarray, rows: int, name: str) -> None:
    """Check that segments ``[offsets[b], offsets[b + 1])`` cover the rows 0 to ``rows`` in order.

    Args:
        offsets: ``(B + 1,)`` integers.
        rows: number of rows.
        name: name of the offsets in the error message.

    Raises:
        InputError: the first offset is not 0, one is smaller than its predecessor, or the last is not ``rows``.
    """
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != rows:
        found = f"{offsets[0]} to {offsets[-1]}" if len(offsets) else "no offset"
        raise InputError(f"{name}: expected offsets from 0 to {rows}, the number of values, found {found}")
    check_ascending(offsets, name)


def check_ascending(offsets: np.ndarray, name: str) -> None:
    """Check that offsets do not decrease.

    Args:
        offsets: ``(n,)`` integers.
        name: name of the offsets in the error message.

    Raises:
        InputError: an offset is smaller than its predecessor.
    """
    position = first_decrease(offsets)
    if position >= 0:
        raise InputError(
            f"{name}: offset {offsets[position]} at position {position} is smaller than the one before, "
            f"{offsets[position - 1]}; expected offsets that do not decrease"
        )


def check_slices(starts: np.ndarray, offsets: np.ndarray, rows: int, name: str) -> None:
    """Check that each slice, ``offsets[b + 1] - offsets[b]`` rows from ``starts[b]`` on, is within ``rows`` rows.

    Args:
        starts: ``(B,)`` first row of each slice.
        offsets: ``(B + 1,)`` integers.
        rows: number of rows.
        name: name of the slices in the error message.

    Raises:
        InputError: a slice begins before row 0 or ends after the last row, or the offsets are invalid
            (`check_offsets`).
    """
    check_offsets(offsets, int(offsets[-1]) if len(offsets) else 0, name)
    if len(starts) != len(offsets) - 1:
        raise InputError(
            f"{name}: expected a start for each of {len(offsets) - 1} slices, found {len(starts)}"
        )
    position = _first_slice_out_of_range(starts, offsets, rows)
    if position >= 0:
        length = offsets[position + 1] - offsets[position]
        raise InputError(
            f"{name}: slice {position}, of {length} rows from row {starts[position]} on, is outside the {rows} rows"
        )


def first_decrease(offsets: np.ndarray) -> int:
    """Return the position of the first offset that is smaller than the one before it; -1 if there is none."""
    if current_engine() == "compiled":
        return kernels.first_decrease(offsets)
    return _first(np.append(False, offsets[1:] < offsets[:-1]))


def _first_out_of_range(codes: np.ndarray, size: int) -> int:
    if current_engine() == "compiled":
        return kernels.first_out_of_range(codes, size)
    return _first((codes < 0) | (codes >= size))


def _first_slice_out_of_range(starts: np.ndarray, offsets: np.ndarray, rows: int) -> int:
    if current_engine() == "compiled":
        return kernels.first_slice_out_of_range(starts, offsets, rows)
    lengths = np.diff(offsets)
    return _first((lengths > 0) & ((starts < 0) | (starts > rows - lengths)))


def _first(bad: np.ndarray) -> int:
    return int(bad.argmax()) if bad.any() else -1
