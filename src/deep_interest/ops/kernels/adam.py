"""One step of Adam (Kingma and Ba 2015), in one pass over memory."""

import numpy as np
from numba import njit

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def update_all(values, gradient, first, second, constants, part, parts):
    begin, end = partition_bounds(len(values), part, parts)
    _update(values[begin:end], gradient[begin:end], first[begin:end], second[begin:end], constants)


@kernel
def update_rows(table, first, second, rows, gradient, constants, part, parts):
    begin, end = partition_bounds(len(rows), part, parts)
    for i in range(begin, end):
        if i + PREFETCH_DISTANCE < end:
            soon = rows[i + PREFETCH_DISTANCE]
            prefetch_row(table, soon)
            prefetch_row(first, soon)
            prefetch_row(second, soon)
        row = rows[i]
        _update(table[row], gradient[i], first[row], second[row], constants)


@njit(inline="always")
def _update(values, gradient, first, second, constants):
    to_first, to_second, eps, size = constants[0], constants[1], constants[2], constants[3]
    for j in range(len(values)):
        first[j] += to_first * (gradient[j] - first[j])
        second[j] += to_second * (gradient[j] * gradient[j] - second[j])
        values[j] -= size * first[j] / (np.sqrt(second[j]) + eps)
