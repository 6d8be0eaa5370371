"""Loops of Adam: parameters, gradients and both moments in one pass over memory."""

import numpy as np
from numba import njit

from deep_interest.ops.kernels.prefetch import PREFETCH_DISTANCE, prefetch_row
from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def update_all(parameters, gradient, first_moment, second_moment, constants, partition, partitions):
    """Update a vector.

    Args:
        parameters: INOUT ``(n,)``.
        gradient: ``(n,)``.
        first_moment, second_moment: INOUT ``(n,)``.
        constants: ``1 - β1``, ``1 - β2``, epsilon and step size.
    """
    begin, end = partition_bounds(len(parameters), partition, partitions)
    _update(
        parameters[begin:end], gradient[begin:end], first_moment[begin:end], second_moment[begin:end], constants
    )  # fmt: skip


@kernel
def update_rows(table, first_moment, second_moment, rows, gradient, constants, partition, partitions):
    """Update some rows of a table.

    Args:
        table, first_moment, second_moment: INOUT ``(R, D)``.
        rows: ``(k,)`` different row indices.
        gradient: ``(k, D)``.
        constants: as in `update_all`.
    """
    begin, end = partition_bounds(len(rows), partition, partitions)
    for i in range(begin, end):
        if i + PREFETCH_DISTANCE < end:
            upcoming = rows[i + PREFETCH_DISTANCE]
            prefetch_row(table, upcoming)
            prefetch_row(first_moment, upcoming)
            prefetch_row(second_moment, upcoming)
        row = rows[i]
        _update(table[row], gradient[i], first_moment[row], second_moment[row], constants)


@njit(inline="always")
def _update(parameters, gradient, first_moment, second_moment, constants):
    decay1, decay2, eps, step_size = constants[0], constants[1], constants[2], constants[3]
    for j in range(len(parameters)):
        first_moment[j] += decay1 * (gradient[j] - first_moment[j])
        second_moment[j] += decay2 * (gradient[j] * gradient[j] - second_moment[j])
        parameters[j] -= step_size * first_moment[j] / (np.sqrt(second_moment[j]) + eps)
