"""Sparse gradients with each row once; a table's size costs nothing."""

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.compiled import arrays, compiled, fits, run


class RowMerger:
    """Sums the gradients of equal rows.

    Args:
        table: ``(R, D)`` the parameter; a place for each of its rows is kept.
    """

    def __init__(self, table: Tensor) -> None:
        self._fits = fits(table)
        self._places = np.full(len(table), -1, np.int32) if self._fits else None

    def __call__(self, gradient: Tensor) -> Tensor:
        """The sparse ``gradient`` with one entry a touched row."""
        if not self._fits or gradient.is_coalesced():
            return gradient.coalesce()
        codes, values = gradient._indices()[0], gradient._values()
        (code_array,) = arrays(codes)
        rows, entries = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
        count = _number(code_array, self._places, rows, entries)
        merged = values.new_zeros(count, values.shape[1])
        run(_merge, *arrays(values), entries, *arrays(merged), work=values.numel())
        return torch.sparse_coo_tensor(
            torch.from_numpy(rows[:count]).unsqueeze(0), merged, gradient.shape, is_coalesced=True, check_invariants=False
        )  # fmt: skip


@compiled
def _number(codes, places, rows, entries):
    """Number the different codes in the order in which they come; returns how many there are."""
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        if places[code] < 0:
            places[code] = count
            rows[count] = code
            count += 1
        entries[i] = places[code]
    for i in range(count):
        places[rows[i]] = -1
    return count


@compiled
def _merge(values, entries, merged, part, parts):
    """Each part takes rows of its own, so that no two threads write one, in an order that does not depend on their number."""
    for i in range(len(entries)):
        entry = entries[i]
        if entry % parts == part:
            row, total = values[i], merged[entry]
            for j in range(len(total)):
                total[j] += row[j]
