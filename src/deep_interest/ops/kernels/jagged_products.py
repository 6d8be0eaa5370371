"""Loops of products over jagged batches: weighted sums and dot products, and their gradients.

Shapes: ``values (N, D)``, ``queries (B, D)``, ``weights (N,)``; segment b is ``values[offsets[b] : offsets[b + 1]]``.
"""

from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def segment_dot_forward(values, queries, offsets, products, partition, partitions):
    """Dot product of each value with its segment's query; OUT ``products (N,)``."""
    first, last = partition_bounds(len(queries), partition, partitions)
    for b in range(first, last):
        query = queries[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, product = values[p], values.dtype.type(0)
            for j in range(len(query)):
                product += row[j] * query[j]
            products[p] = product


@kernel
def segment_dot_backward(
    grad_output, values, queries, offsets, grad_values, grad_queries, partition, partitions
):
    """Gradients of `segment_dot_forward`; OUT ``grad_values (N, D)`` and ``grad_queries (B, D)``."""
    first, last = partition_bounds(len(queries), partition, partitions)
    for b in range(first, last):
        query, total = queries[b], grad_queries[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight = values[p], grad_values[p], grad_output[p]
            for j in range(len(query)):
                out[j] = weight * query[j]
                total[j] += weight * row[j]


@kernel
def weighted_sum_forward(weights, values, offsets, sums, partition, partitions):
    """Weighted sum of each segment; OUT ``sums (B, D)``."""
    first, last = partition_bounds(len(sums), partition, partitions)
    for b in range(first, last):
        total = sums[b]
        total[:] = 0
        for p in range(offsets[b], offsets[b + 1]):
            row, weight = values[p], weights[p]
            for j in range(len(total)):
                total[j] += weight * row[j]


@kernel
def weighted_sum_backward(
    weights, values, grad_output, offsets, grad_weights, grad_values, partition, partitions
):
    """Gradients of `weighted_sum_forward`; OUT ``grad_weights (N,)`` and ``grad_values (N, D)``."""
    first, last = partition_bounds(len(grad_output), partition, partitions)
    for b in range(first, last):
        grad = grad_output[b]
        for p in range(offsets[b], offsets[b + 1]):
            row, out, weight, product = values[p], grad_values[p], weights[p], values.dtype.type(0)
            for j in range(len(grad)):
                product += row[j] * grad[j]
            for j in range(len(grad)):
                out[j] = weight * grad[j]
            grad_weights[p] = product


@kernel
def shifted_dot_forward(values, others, offsets, products, partition, partitions):
    """Dot product of each value with the next row of ``others (N, D)``, 0 at the end of a segment.

    OUT ``products (N,)``.
    """
    first, last = partition_bounds(len(offsets) - 1, partition, partitions)
    for b in range(first, last):
        for p in range(offsets[b], offsets[b + 1]):
            product = values.dtype.type(0)
            if p + 1 < offsets[b + 1]:
                row, other = values[p], others[p + 1]
                for j in range(len(row)):
                    product += row[j] * other[j]
            products[p] = product


@kernel
def shifted_dot_backward(
    grad_output, values, others, offsets, accumulate, grad_values, grad_others, partition, partitions
):
    """Gradients of `shifted_dot_forward`.

    Args:
        grad_output: ``(N,)``.
        values, others: ``(N, D)``.
        offsets: ``(B + 1,)``.
        accumulate: whether to add to ``grad_values``.
        grad_values: OUT, or INOUT with ``accumulate``, ``(N, D)``.
        grad_others: OUT ``(N, D)``.
    """
    first, last = partition_bounds(len(offsets) - 1, partition, partitions)
    for b in range(first, last):
        begin, end = offsets[b], offsets[b + 1]
        if begin == end:
            continue
        grad_others[begin] = 0
        if not accumulate:
            grad_values[end - 1] = 0
        for p in range(begin, end - 1):
            weight, row, other = grad_output[p], values[p], others[p + 1]
            grad_row, grad_other = grad_values[p], grad_others[p + 1]
            if accumulate:
                for j in range(len(row)):
                    grad_row[j] += weight * other[j]
            else:
                for j in range(len(row)):
                    grad_row[j] = weight * other[j]
            for j in range(len(row)):
                grad_other[j] = weight * row[j]


@kernel
def circular_dot_forward(values, others, products, partition, partitions):
    """Dot products of row p with rows p + 1 to p + K (mod N) of ``others (N, D)``; OUT ``products (N, K)``."""
    first, last = partition_bounds(len(values), partition, partitions)
    for p in range(first, last):
        row = values[p]
        for k in range(products.shape[1]):
            other, product = others[(p + 1 + k) % len(others)], values.dtype.type(0)
            for j in range(len(row)):
                product += row[j] * other[j]
            products[p, k] = product


@kernel
def circular_dot_backward(grad_output, rows, direction, grad, partition, partitions):
    """Gradient of `circular_dot_forward` with respect to ``values`` (direction 1) or ``others`` (direction -1).

    Args:
        grad_output: ``(N, K)``.
        rows: ``(N, D)`` the other factor.
        direction: 1 or -1.
        grad: OUT ``(N, D)``.
    """
    first, last = partition_bounds(len(grad), partition, partitions)
    for p in range(first, last):
        total = grad[p]
        total[:] = 0
        for k in range(grad_output.shape[1]):
            q = (p + direction * (1 + k)) % len(rows)
            weight, row = grad_output[p if direction > 0 else q, k], rows[q]
            for j in range(len(total)):
                total[j] += weight * row[j]
