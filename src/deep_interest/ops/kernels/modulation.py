"""Loops that multiply and shift rows by rows of small tables, and sum such rows."""

import numpy as np
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
        _scale(grad_out, i, tables, codes, first_rows, i, grad_values, width)
        for f in range(len(codes)):
            r = first_rows[f] + codes[f, i]
            for j in range(width):
                sums[r, j] += grad_out[i, j] * values[i, j]
            for j in range(width):
                sums[r, width + j] += grad_out[i, j]
        for j in range(more):
            grad_appended[i, j] = grad_out[i, width + j]


@kernel
def modulated_sum_forward(
    values, appended, tables, embeddings, codes, first_rows, offsets, sums, partition, partitions
):
    """The sum of the rows of `modulate_forward` in each segment, followed by the sums of the embeddings of each field.

    Neither the rows nor the embeddings of the behaviours are written: shifts and embeddings are added once per code of a segment,
    times its count.

    Args:
        values, appended, tables, codes, first_rows: as in `modulate_forward`.
        embeddings: ``(R, D)`` rows of the embeddings of all fields, in the order of ``tables``; D = 0 for none.
        offsets: ``(B + 1,)`` of the segments.
        sums: OUT ``(B, W + A + F D)``.
    """
    first, last = partition_bounds(len(sums), partition, partitions)
    width, more, fields, dim = values.shape[1], appended.shape[1], len(codes), embeddings.shape[1]
    counts = np.zeros(len(tables), np.int64)
    for b in range(first, last):
        for j in range(sums.shape[1]):
            sums[b, j] = 0
        for i in range(offsets[b], offsets[b + 1]):
            _add_scaled(values, tables, codes, first_rows, i, sums, b)
            for f in range(fields):
                counts[first_rows[f] + codes[f, i]] += 1
            for j in range(more):
                sums[b, width + j] += appended[i, j]
        for i in range(offsets[b], offsets[b + 1]):
            for f in range(fields):
                r = first_rows[f] + codes[f, i]
                times = values.dtype.type(counts[r])
                if times:
                    counts[r] = 0
                    for j in range(width):
                        sums[b, j] += times * tables[r, width + j]
                    column = width + more + f * dim
                    for j in range(dim):
                        sums[b, column + j] += times * embeddings[r, j]


@kernel
def modulated_sum_backward(
    grad_sums,
    values,
    tables,
    codes,
    first_rows,
    offsets,
    grad_values,
    grad_appended,
    grad_tables,
    grad_embeddings,
    partition,
    partitions,
):
    """Compute the gradients of `modulated_sum_forward`.

    Args:
        grad_sums: ``(B, W + A + F D)``.
        values, tables, codes, first_rows, offsets: as in `modulated_sum_forward`.
        grad_values, grad_appended, grad_tables: as in `modulate_backward`.
        grad_embeddings: OUT ``(partitions, R, D)``, a sum for each partition.
    """
    first, last = partition_bounds(len(grad_sums), partition, partitions)
    width, more, fields, dim = (
        values.shape[1], grad_appended.shape[1], len(codes), grad_embeddings.shape[2],
    )  # fmt: skip
    counts = np.zeros(len(tables), np.int64)
    sums, sums_of_embeddings = grad_tables[partition], grad_embeddings[partition]
    sums[:] = 0
    sums_of_embeddings[:] = 0
    for b in range(first, last):
        for i in range(offsets[b], offsets[b + 1]):
            _scale(grad_sums, b, tables, codes, first_rows, i, grad_values, width)
            for f in range(fields):
                r = first_rows[f] + codes[f, i]
                counts[r] += 1
                for j in range(width):
                    sums[r, j] += grad_sums[b, j] * values[i, j]
            for j in range(more):
                grad_appended[i, j] = grad_sums[b, width + j]
        for i in range(offsets[b], offsets[b + 1]):
            for f in range(fields):
                r = first_rows[f] + codes[f, i]
                times = values.dtype.type(counts[r])
                if times:
                    counts[r] = 0
                    for j in range(width):
                        sums[r, width + j] += times * grad_sums[b, j]
                    column = width + more + f * dim
                    for j in range(dim):
                        sums_of_embeddings[r, j] += times * grad_sums[b, column + j]


@njit(inline="always")
def _scale(rows, row, tables, codes, first_rows, i, out, width):
    """``out[i] = rows[row] ∘ (1 + Σ_f s_f)`` with the codes of row i; up to three fields in one pass, as the passes wait for memory."""
    fields, a = len(codes), first_rows[0] + codes[0, i]
    if fields == 1:
        for j in range(width):
            out[i, j] = rows[row, j] + rows[row, j] * tables[a, j]
        return
    b = first_rows[1] + codes[1, i]
    if fields == 2:
        for j in range(width):
            out[i, j] = rows[row, j] + rows[row, j] * (tables[a, j] + tables[b, j])
        return
    c = first_rows[2] + codes[2, i]
    for j in range(width):
        out[i, j] = rows[row, j] + rows[row, j] * (tables[a, j] + tables[b, j] + tables[c, j])
    for f in range(3, fields):
        r = first_rows[f] + codes[f, i]
        for j in range(width):
            out[i, j] += rows[row, j] * tables[r, j]


@njit(inline="always")
def _add_scaled(values, tables, codes, first_rows, i, sums, b):
    """``sums[b] += values[i] ∘ (1 + Σ_f s_f)``; up to three fields in one pass."""
    width, fields, first = values.shape[1], len(codes), first_rows[0] + codes[0, i]
    if fields == 1:
        for j in range(width):
            sums[b, j] += values[i, j] + values[i, j] * tables[first, j]
        return
    second = first_rows[1] + codes[1, i]
    if fields == 2:
        for j in range(width):
            sums[b, j] += values[i, j] + values[i, j] * (tables[first, j] + tables[second, j])
        return
    third = first_rows[2] + codes[2, i]
    for j in range(width):
        sums[b, j] += values[i, j] + values[i, j] * (tables[first, j] + tables[second, j] + tables[third, j])
    for f in range(3, fields):
        r = first_rows[f] + codes[f, i]
        for j in range(width):
            sums[b, j] += values[i, j] * tables[r, j]
