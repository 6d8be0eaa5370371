"""Single kernels of the engine compared with standard ones, outside a training step; called by `ablation.py`."""

import statistics
import time
from collections.abc import Callable, Iterator

SHAPES = [
    (128, 128, 80),
    (128, 80, 40),
    (128, 256, 200),
    (128, 400, 200),
    (128, 200, 80),
    (24, 128, 384),
]
"""Rows, inner size and columns of products in the models: chunks of the attention unit and of the MLP, a group of a GRU."""


def alternate(
    one: Callable[[], object], other: Callable[[], object], *, pairs: int, clock: Callable[[], float]
) -> float:
    """Median over alternating calls of the time of ``other`` divided by that of ``one``."""
    ratios = []
    for number in range(pairs + 1):
        seconds = {}
        for call in (one, other) if number % 2 else (other, one):
            start = clock()
            call()
            seconds[call] = clock() - start
        if number:  # the first pair compiles
            ratios.append(seconds[other] / seconds[one])
    return statistics.median(ratios)


def products(pairs: int) -> Iterator[tuple[str, float]]:
    """Our matrix product against numba's ``np.dot``, which calls BLAS, on one thread; both within a compiled loop.

    Packing is left out, as the engine packs a matrix once per operation, for all its chunks.
    """
    import numpy as np
    from numba import njit

    from deep_interest.ops.kernels.gemm import matmul_add, pack

    @njit(nogil=True)
    def ours(left, packed, out, times):
        for _ in range(times):
            matmul_add(left, packed, out)

    @njit(nogil=True)
    def blas(left, right, out, product, times):
        for _ in range(times):
            np.dot(left, right, product)
            out += product

    rng = np.random.default_rng(0)
    for rows, inner, columns in SHAPES:
        left, right = (rng.standard_normal(shape, np.float32) for shape in ((rows, inner), (inner, columns)))
        out, product, packed = (
            np.zeros((rows, columns), np.float32),
            np.empty((rows, columns), np.float32),
            pack(right),
        )
        times = max(1, 50_000_000 // (rows * inner * columns))
        ratio = alternate(
            lambda: ours(left, packed, out, times),  # noqa: B023
            lambda: blas(left, right, out, product, times),  # noqa: B023
            pairs=pairs,
            clock=time.process_time,
        )
        yield f"np.dot instead: {rows} × {inner} × {columns}", ratio


def loops(pairs: int) -> Iterator[tuple[str, float]]:
    """Our partitions against ``prange``, on as many threads as torch uses: one large batch of two simple kernels."""
    import numpy as np
    import torch
    from numba import njit, prange, set_num_threads

    from deep_interest.ops.kernels.embedding import gather_rows
    from deep_interest.ops.kernels.jagged import segment_sum_forward
    from deep_interest.ops.runtime.parallel import partition_count, run_kernel

    @njit(parallel=True, nogil=True)
    def gather(table, codes, rows, column, partitions):
        for partition in prange(partitions):
            gather_rows(table, codes, rows, column, partition, partitions)

    @njit(parallel=True, nogil=True)
    def segment_sum(values, offsets, sums, partitions):
        for partition in prange(partitions):
            segment_sum_forward(values, offsets, sums, partition, partitions)

    set_num_threads(torch.get_num_threads())
    rng = np.random.default_rng(0)
    table, codes = rng.standard_normal((63_002, 64), np.float32), rng.integers(0, 63_002, 16_384)
    rows, offsets = np.empty((len(codes), 64), np.float32), np.arange(0, len(codes) + 1, 16)
    sums, work = np.empty((len(offsets) - 1, 64), np.float32), len(codes) * 64
    for name, kernel, parallel, arguments in (
        ("gather_rows", gather_rows, gather, (table, codes, rows, 0)),
        ("segment_sum", segment_sum_forward, segment_sum, (rows, offsets, sums)),
    ):
        ratio = alternate(
            lambda: run_kernel(kernel, *arguments, work=work),  # noqa: B023
            lambda: parallel(*arguments, partition_count(work)),  # noqa: B023
            pairs=20 * pairs,
            clock=time.perf_counter,
        )
        yield f"prange instead: {name}, 16,384 × 64", ratio


def large_tables(pairs: int) -> Iterator[tuple[str, float]]:
    """Prefetching and huge pages, for 16,384 random rows of tables with 500,000 rows, on one thread."""
    import numpy as np
    import torch
    from ablation_parts import compiled_without_prefetching

    from deep_interest.ops.kernels.adam import update_rows
    from deep_interest.ops.kernels.embedding import gather_rows
    from deep_interest.ops.runtime.memory import use_huge_pages

    size, rng = 500_000, np.random.default_rng(0)
    small_pages, *tables = (torch.zeros(size, 64) for _ in range(4))
    for table in tables:
        use_huge_pages(table)
    rows = rng.permutation(size)[:16_384]
    gradient, out = (
        rng.standard_normal((len(rows), 64), np.float32),
        np.empty((len(rows), 64), np.float32),
    )
    constants = np.array([0.1, 0.001, 1e-8, 1e-3], np.float32)
    gather = tables[0].numpy(), rows, out, 0
    update = *(table.numpy() for table in tables), rows, gradient, constants
    for name, kernel, arguments in (
        ("gather_rows", gather_rows, gather),
        ("update_rows", update_rows, update),
    ):
        other = compiled_without_prefetching(kernel)
        ratio = alternate(
            lambda: kernel(*arguments, 0, 1),  # noqa: B023
            lambda: other(*arguments, 0, 1),  # noqa: B023
            pairs=4 * pairs,
            clock=time.process_time,
        )
        yield f"without prefetching: {name}, 500,000 rows", ratio
    ratio = alternate(
        lambda: gather_rows(*gather, 0, 1),
        lambda: gather_rows(small_pages.numpy(), *gather[1:], 0, 1),
        pairs=4 * pairs,
        clock=time.process_time,
    )
    yield "without huge pages: gather_rows, 500,000 rows", ratio
