"""SIMD micro-kernels emitted as LLVM IR, because auto-vectorisation misses them; `gemm` calls them.

A micro-kernel computes a block of up to MR rows by PANELS_PER_CALL panels of NR columns and keeps the block's sums
in vector registers. Operands are tuples of addresses and strides in bytes, all int64, of float32 values.
"""

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils

from deep_interest.ops.kernels import gemm_python
from deep_interest.ops.kernels.llvm import (
    HAS_AVX512,
    INT64,
    LANES,
    NR,
    PANEL_ROW,
    VECTOR_OFFSETS,
    ZERO,
    broadcast,
    horizontal_sum,
    lane_mask,
    load,
    load_panels,
    loop,
    multiply_add,
    product_loop,
    store,
    switch_on_rows,
    vector_addresses,
)
from deep_interest.ops.runtime.jit import intrinsic

MR = 12 if HAS_AVX512 else 6  # rows of a block, as many as fit the registers
SEGMENT_MR = 8 if HAS_AVX512 else 6  # rows of a block of `segment_micro_kernel`, which keeps three sums a row
PANELS_PER_CALL = 2 if HAS_AVX512 else 1  # panels for which a value of the left matrix is loaded once


def _int64s(count: int):
    return types.UniTuple(types.int64, count)


def micro_kernel(right: Callable) -> Callable:
    """Make a micro-kernel ``out[r, :] = start[r, :] + Σ_k a[r, k] · B[k, :]``.

    Its arguments, all int64 or tuples of int64::

        rows        1 to MR
        columns     at most NR, or PANELS_PER_CALL * NR
        inner       number of k
        left        address, row stride and step stride of a
        right       addresses of b and of b2, bytes from k to k, bytes from panel to panel, address of factors
        start       address and row stride
        out         address and row stride

    Args:
        right: how B is computed from b, b2 and factors: `unscaled`, `rows_scaled` or `columns_scaled`.
    """

    @intrinsic(gemm_python.micro_kernel(_SCALING[right]))
    def call(typing, rows, columns, inner, left, right_operand, start, out):
        def generate(builder, rows: int, operands, *, panels: int = 1, masked: bool = False):
            columns, inner, left, right_operand, start, out = operands
            vectors = panels * len(VECTOR_OFFSETS)
            masks = [lane_mask(builder, columns, index) if masked else None for index in range(vectors)]
            targets, sources = (
                vector_addresses(builder, address, stride, rows, panels=panels)
                for address, stride in (out, start)
            )
            initial = [
                load(builder, source, mask=mask) for source, mask in zip(sources, masks * rows, strict=True)
            ]
            streams, load_right = right(builder, right_operand, panels, masks)
            sums = product_loop(builder, initial, left, streams, load_right, inner)
            for target, mask, total in zip(targets, masks * rows, sums, strict=True):
                store(builder, total, target, mask=mask)

        def code(context, builder, signature, arguments):
            rows, columns, inner, *tuples = arguments
            operands = [columns, inner, *(cgutils.unpack_tuple(builder, each) for each in tuples)]

            def generated(**width) -> None:
                switch_on_rows(builder, rows, MR, lambda count: generate(builder, count, operands, **width))

            with builder.if_else(builder.icmp_signed("<", columns, INT64(NR))) as (
                part_of_panel,
                whole_panels,
            ):
                with part_of_panel:
                    generated(masked=True)
                with whole_panels:
                    if PANELS_PER_CALL == 1:
                        generated()
                    else:
                        is_one = builder.icmp_signed("==", columns, INT64(NR))
                        with builder.if_else(is_one) as (one_panel, two_panels):
                            with one_panel:
                                generated()
                            with two_panels:
                                generated(panels=2)
            return context.get_dummy_value()

        sizes = [types.int64] * 3
        return types.void(*sizes, _int64s(3), _int64s(5), _int64s(2), _int64s(2)), code

    return call


def unscaled(builder, right, panels: int, masks):
    """``B = b``."""
    b, _, step, panel, _ = right
    return [(b, step)], lambda addresses: load_panels(builder, addresses[0], panel, panels)


def rows_scaled(builder, right, panels: int, masks):
    """``B[k, :] = b[k, :] + factors[k] · b2[k, :]``."""
    b, b2, step, panel, factors = right

    def load_right(addresses):
        factor = broadcast(builder, load(builder, addresses[2], ir.FloatType()))
        pairs = zip(*(load_panels(builder, address, panel, panels) for address in addresses[:2]), strict=True)
        return [multiply_add(builder, first, second, factor) for first, second in pairs]

    return [(b, step), (b2, step), (factors, INT64(4))], load_right


def columns_scaled(builder, right, panels: int, masks):
    """``B[k, :] = b[k, :] + factors[:] ∘ b2[k, :]``."""
    b, b2, step, panel, factors = right
    addresses = [builder.add(factors, INT64(4 * LANES * index)) for index in range(len(masks))]
    scales = [load(builder, address, mask=mask) for address, mask in zip(addresses, masks, strict=True)]

    def load_right(addresses):
        loaded = (load_panels(builder, address, panel, panels) for address in addresses)
        triples = zip(*loaded, scales, strict=True)
        return [multiply_add(builder, first, second, factor) for first, second, factor in triples]

    return [(b, step), (b2, step)], load_right


_SCALING = {unscaled: None, rows_scaled: "rows", columns_scaled: "columns"}  # for `gemm_python`


@intrinsic(gemm_python.segment_micro_kernel)
def segment_micro_kernel(typing, rows, left, e, segments, count, query, sums):
    """From ``G_s = Σ_k a[k, r] · e[k, 0:NR]`` over the k of each segment s, accumulate the gradients of DIN's
    factorised layer.

    ``grad_single += Σ_s G_s``, ``grad_product += Σ_s G_s ∘ v_s`` and ``grad_v_s += Σ_r weight[r] ∘ G_s[r]``.

    Args:
        rows: 1 to SEGMENT_MR rows r.
        left: address of a and its step stride from k to k.
        e: address of a panel.
        segments: address of three int64 for each segment: its first k, the first k after it, and a value that is
            not used.
        count: number of segments.
        query: addresses of the panels v and grad_v, a row of each for every segment.
        sums: addresses of the panel rows of weight, grad_single and grad_product.
    """

    def generate(builder, rows: int, operands):
        (a, a_step), e, segments, count, (v, grad_v), (weight, grad_single, grad_product) = operands
        size = len(VECTOR_OFFSETS) * rows
        targets = [
            address
            for first in (grad_single, grad_product)
            for address in vector_addresses(builder, first, PANEL_ROW, rows)
        ]
        weights = vector_addresses(builder, weight, PANEL_ROW, rows)

        def segment(addresses, sums):
            bounds, own_v, own_grad_v = addresses
            begin, end = (load(builder, builder.add(bounds, INT64(8 * index)), INT64) for index in range(2))
            first = builder.add(a, builder.mul(begin, a_step))
            streams = [(builder.add(e, builder.mul(begin, PANEL_ROW)), PANEL_ROW)]
            products = product_loop(
                builder, [ZERO] * size, (first, INT64(4), a_step), streams,
                lambda addresses: load_panels(builder, addresses[0], INT64(0), 1), builder.sub(end, begin),
            )  # fmt: skip
            factors = load_panels(builder, own_v, INT64(0), 1)
            own_targets = vector_addresses(builder, own_grad_v, PANEL_ROW, 1)
            own_sums = load_panels(builder, own_grad_v, INT64(0), 1)
            for i, (address, product) in enumerate(zip(weights, products, strict=True)):
                index = i % len(VECTOR_OFFSETS)
                own_sums[index] = multiply_add(builder, own_sums[index], product, load(builder, address))
            for target, total in zip(own_targets, own_sums, strict=True):
                store(builder, total, target)
            single = [
                builder.fadd(total, product) for total, product in zip(sums[:size], products, strict=True)
            ]
            triples = zip(sums[size:], products, factors * rows, strict=True)
            return single + [
                multiply_add(builder, total, product, factor) for total, product, factor in triples
            ]

        start = [load(builder, target) for target in targets]
        streams = [(segments, INT64(24)), (v, PANEL_ROW), (grad_v, PANEL_ROW)]
        for target, total in zip(targets, loop(builder, start, count, streams, segment), strict=True):
            store(builder, total, target)

    def code(context, builder, signature, arguments):
        rows, left, e, segments, count, query, sums = arguments
        left, query, sums = (cgutils.unpack_tuple(builder, each) for each in (left, query, sums))
        operands = left, e, segments, count, query, sums
        switch_on_rows(builder, rows, SEGMENT_MR, lambda count: generate(builder, count, operands))
        return context.get_dummy_value()

    int64 = types.int64
    return types.void(int64, _int64s(2), int64, int64, int64, _int64s(2), _int64s(3)), code


@intrinsic(gemm_python.dot)
def dot(typing, a, b, count):
    """Return ``Σ_i a[i] · b[i]`` over ``count`` values, always summed in the same order; a and b are addresses."""

    def code(context, builder, signature, arguments):
        first, second, count = arguments
        vectors = builder.sdiv(count, INT64(LANES))
        step = INT64(4 * LANES)

        def body(addresses, sums):
            return [multiply_add(builder, sums[0], *(load(builder, address) for address in addresses))]

        (total,) = loop(builder, [ZERO], vectors, [(first, step), (second, step)], body)
        done = builder.mul(vectors, step)
        mask = lane_mask(builder, builder.srem(count, INT64(LANES)), 0)
        remainder = [load(builder, builder.add(address, done), mask=mask) for address in (first, second)]
        return horizontal_sum(builder, multiply_add(builder, total, *remainder))

    return types.float32(types.int64, types.int64, types.int64), code
