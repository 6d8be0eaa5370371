"""Products of rows with something beside them: weighted sums, and inner products with their run's query or with the next rows.

Shapes: ``N`` rows in ``B`` runs, of width ``D``; a run may be empty.
"""

from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def segment_dot_forward(values, queries, offsets, products, part, parts):
    first, last = partition_bounds(len(queries), part, parts)
    for b in range(first, last):
        query = queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, product = values[p], values.dtype.type(0)
            for j in range(len(query)):
                product += row[j] * query[j]
            products[p] = product


@kernel
def weighted_sum_forward(weights, values, offsets, sums, part, parts):
    first, last = partition_bounds(len(sums), part, parts)
    for b in range(first, last):
        total = sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, weight = values[p], weights[p]
            for j in range(len(total)):
                total[j] += weight * row[j]


@kernel
def weighted_sum_backward(weights, values, queries, offsets, products, scaled, part, parts):
    """``products`` as `_dot`, and each row's query times its weight."""
    first, last = partition_bounds(len(queries), part, parts)
    for b in range(first, last):
        query = queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight, product = values[p], scaled[p], weights[p], values.dtype.type(0)
            for j in range(len(query)):
                product += row[j] * query[j]
            for j in range(len(query)):
                out[j] = weight * query[j]
            products[p] = product


@kernel
def segment_dot_backward(weights, values, queries, offsets, scaled, sums, part, parts):
    """Each row's query times its weight, and ``sums`` as `_weighted`."""
    first, last = partition_bounds(len(queries), part, parts)
    for b in range(first, last):
        query, total = queries[b], sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight = values[p], scaled[p], weights[p]
            for j in range(len(query)):
                out[j] = weight * query[j]
                total[j] += weight * row[j]


@kernel
def shifted_dot_forward(values, others, offsets, products, part, parts):
    first, last = partition_bounds(len(offsets) - 1, part, parts)
    for b in range(first, last):
        for p in range(offsets[b], offsets[b + 1]):
            product = values.dtype.type(0)
            if p + 1 < offsets[b + 1]:
                row, other = values[p], others[p + 1]
                for j in range(len(row)):
                    product += row[j] * other[j]
            products[p] = product


@kernel
def shifted_dot_backward(weights, values, others, offsets, more, to_values, to_others, part, parts):
    """The rows one further on, each times its row's weight, and these rows times it; ``more`` adds to ``to_values``."""
    first, last = partition_bounds(len(offsets) - 1, part, parts)
    for b in range(first, last):
        begin, end = offsets[b], offsets[b + 1]
        if begin == end:
            continue
        to_others[begin] = 0
        if not more:
            to_values[end - 1] = 0
        for p in range(begin, end - 1):
            weight, row, other = weights[p], values[p], others[p + 1]
            to_row, to_other = to_values[p], to_others[p + 1]
            if more:
                for j in range(len(row)):
                    to_row[j] += weight * other[j]
            else:
                for j in range(len(row)):
                    to_row[j] = weight * other[j]
            for j in range(len(row)):
                to_other[j] = weight * row[j]


@kernel
def circular_dot_forward(values, others, products, part, parts):
    first, last = partition_bounds(len(values), part, parts)
    for p in range(first, last):
        row = values[p]
        for k in range(products.shape[1]):
            other, product = others[(p + 1 + k) % len(others)], values.dtype.type(0)
            for j in range(len(row)):
                product += row[j] * other[j]
            products[p, k] = product


@kernel
def circular_dot_backward(weights, rows, step, sums, part, parts):
    """Each row's sum of the others that it was multiplied with, by its own weights (``step`` 1) or by theirs (-1)."""
    first, last = partition_bounds(len(sums), part, parts)
    for p in range(first, last):
        total = sums[p]
        total[:] = 0
        for k in range(weights.shape[1]):
            q = (p + step * (1 + k)) % len(rows)
            weight, row = weights[p if step > 0 else q, k], rows[q]
            for j in range(len(total)):
                total[j] += weight * row[j]
