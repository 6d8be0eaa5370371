"""Loops that multiply and shift rows by rows of small tables."""

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
    width = values.shape[1]
    sums = grad_tables[partition]
    sums[:] = 0
    for i in range(first, last):
        row, grad, rest = values[i], grad_out[i, :width], grad_out[i, width:]
        target = grad_values[i]
        for j in range(width):
            target[j] = grad[j]
        for f in range(len(codes)):
            r = first_rows[f] + codes[f, i]
            scale, scale_sum, shift_sum = tables[r, :width], sums[r, :width], sums[r, width:]
            for j in range(width):
                target[j] += grad[j] * scale[j]
            for j in range(width):
                scale_sum[j] += grad[j] * row[j]
            for j in range(width):
                shift_sum[j] += grad[j]
        more = grad_appended[i]
        for j in range(len(rest)):
            more[j] = rest[j]
