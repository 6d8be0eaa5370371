"""Loops that multiply and shift rows by rows of small tables."""

from numba import njit

from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def modulate_forward(values, appended, tables, codes, first_rows, out, partition, partitions):
    """``out[i] = [values[i] ∘ (1 + Σ_f s_f) + Σ_f t_f; appended[i]]`` with ``[s_f; t_f]`` the table row of code f of row i.

    Args:
        values: ``(N, W)``.
        appended: ``(N, A)``.
        tables: ``(R, 2 W)`` rows of the tables of all fields.
        codes: ``(F, N)``.
        first_rows: ``(F,)`` first row of each field in ``tables``.
        out: OUT ``(N, W + A)``.
    """
    first, last = partition_bounds(len(values), partition, partitions)
    width = values.shape[1]
    for i in range(first, last):
        row, target, rest = values[i], out[i, :width], out[i, width:]
        for j in range(width):
            target[j] = row[j]
        for f in range(len(codes)):
            modulation = tables[first_rows[f] + codes[f, i]]
            scale, shift = modulation[:width], modulation[width:]
            for j in range(width):
                target[j] += row[j] * scale[j] + shift[j]
        more = appended[i]
        for j in range(len(rest)):
            rest[j] = more[j]


@kernel
def modulate_backward(
    grad_out,
    values,
    tables,
    codes,
    first_rows,
    grad_values,
    grad_appended,
    grad_tables,
    partition,
    partitions,
):
    """Compute the gradients of `modulate_forward`.

    Args:
        grad_out: ``(N, W + A)``.
        values, tables, codes, first_rows: as in `modulate_forward`.
        grad_values: OUT ``(N, W)``.
        grad_appended: OUT ``(N, A)``.
        grad_tables: OUT ``(partitions, R, 2 W)``, a sum for each partition.
    """
    first, last = partition_bounds(len(values), partition, partitions)
    width, more = values.shape[1], grad_appended.shape[1]
    sums = grad_tables[partition]
    sums[:] = 0
    for i in range(first, last):
        _scale_row(grad_out, tables, codes, first_rows, grad_values, i)
        for f in range(len(codes)):
            r = first_rows[f] + codes[f, i]
            for j in range(width):
                sums[r, j] += grad_out[i, j] * values[i, j]
            for j in range(width):
                sums[r, width + j] += grad_out[i, j]
        for j in range(more):
            grad_appended[i, j] = grad_out[i, width + j]


@njit(inline="always")
def _scale_row(values, tables, codes, first_rows, out, i):
    """``out[i] = values[i] ∘ (1 + Σ_f s_f)``; up to three fields in one pass, as the passes wait for memory."""
    width, fields = out.shape[1], len(codes)
    a = first_rows[0] + codes[0, i]
    if fields == 1:
        for j in range(width):
            out[i, j] = values[i, j] + values[i, j] * tables[a, j]
        return
    b = first_rows[1] + codes[1, i]
    if fields == 2:
        for j in range(width):
            out[i, j] = values[i, j] + values[i, j] * (tables[a, j] + tables[b, j])
        return
    c = first_rows[2] + codes[2, i]
    for j in range(width):
        out[i, j] = values[i, j] + values[i, j] * (tables[a, j] + tables[b, j] + tables[c, j])
    for f in range(3, fields):
        r = first_rows[f] + codes[f, i]
        for j in range(width):
            out[i, j] += values[i, j] * tables[r, j]
