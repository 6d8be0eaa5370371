"""Loops over a few vector registers, written in LLVM's own vectors: what a compiler does not find by itself.

All take addresses and distances in bytes, of float32 numbers; any CPU's registers are mapped to.
"""

from collections.abc import Callable, Sequence

from llvmlite import binding, ir
from numba import types

from deep_interest.ops.kernels import gemm_python
from deep_interest.ops.runtime.jit import intrinsic

NR = gemm_python.NR  # of a tile


# Thirty-two registers of sixteen numbers, or half of both.
HAS_AVX512 = binding.get_host_cpu_features().get("avx512f", False)


MR = 12 if HAS_AVX512 else 6  # of a tile: what the registers hold


SEGMENT_MR = 8 if HAS_AVX512 else 6  # of a tile of pairs, whose rows have three sums


PANELS_PER_CALL = 2 if HAS_AVX512 else 1  # panels: a number of a row is read for so many


_LANES = NR if HAS_AVX512 else NR // 2


_VECTOR, _INT64, _INT32 = ir.VectorType(ir.FloatType(), _LANES), ir.IntType(64), ir.IntType(32)


_PANEL_ROW = _INT64(4 * NR)  # of a panel


_VECTOR_OFFSETS = [_INT64(4 * column) for column in range(0, NR, _LANES)]  # where a row's vectors begin


def micro_kernel(right: Callable) -> Callable:
    """``c[r, 0:columns] = start[r, 0:columns] + Σ_k a[r, k] · B[k, 0:columns]`` for 1 to ROWS rows r; at most 16 columns, or
    TOGETHER · 16.

    It takes ``(rows, columns, a, a_row, a_step, b, more, line, panel, factors, inner, start, start_row, c, c_row)``: of a and of its
    next row and next k, of b and more, of their next k and next panel, of factors, the number of k, of start and of its next row, and
    the same of c.

    Args:
        right: `as_it_is`, `with_rows_scaled` or `with_columns_scaled`: how B comes from b, more and factors.
    """

    @intrinsic(gemm_python.micro_kernel(_SCALING[right]))
    def tile(
        typing, rows, columns, a, a_row, a_step, b, more, line, panel, factors, inner, start, start_row, c, c_row
    ):  # fmt: skip
        def generate(builder, rows, arguments, *, panels: int = 1, some: bool = False):
            columns, a, a_row, a_step, b, more, line, panel, factors, inner, start, start_row, c, c_row = (
                arguments
            )
            count = panels * len(_VECTOR_OFFSETS)
            masks = [_lane_mask(builder, columns, part) if some else None for part in range(count)]
            places, given = (
                _addresses(builder, first, step, rows, panels=panels)
                for first, step in ((c, c_row), (start, start_row))
            )
            before = [
                _load(builder, place, mask=mask) for place, mask in zip(given, masks * rows, strict=True)
            ]
            streams, values = right(builder, b, more, line, panel, factors, panels, masks)
            sums = _product_loop(builder, before, a, a_row, a_step, streams, values, inner)
            for place, mask, total in zip(places, masks * rows, sums, strict=True):
                _store(builder, total, place, mask=mask)

        def code(context, builder, signature, arguments):
            rows, *others = arguments

            def generated(**width) -> None:
                _switch_on_rows(builder, rows, MR, lambda count: generate(builder, count, others, **width))

            with builder.if_else(builder.icmp_signed("<", others[0], _INT64(NR))) as (less, enough):
                with less:
                    generated(some=True)
                with enough:
                    if PANELS_PER_CALL == 1:
                        generated()
                    else:
                        one = builder.icmp_signed("==", others[0], _INT64(NR))
                        with builder.if_else(one) as (of_one, of_two):
                            with of_one:
                                generated()
                            with of_two:
                                generated(panels=2)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 15), code

    return tile


def unscaled(builder, b, more, line, panel, factors, panels: int, masks):
    """B is given."""
    return [(b, line)], lambda places: _load_panels(builder, places[0], panel, panels)


def rows_scaled(builder, b, more, line, panel, factors, panels: int, masks):
    """``B[k, :] = b[k, :] + factors[k] · more[k, :]``."""

    def values(places):
        factor = _broadcast(builder, _load(builder, places[2], ir.FloatType()))
        pairs = zip(*(_load_panels(builder, place, panel, panels) for place in places[:2]), strict=True)
        return [_multiply_add(builder, one, other, factor) for one, other in pairs]

    return [(b, line), (more, line), (factors, _INT64(4))], values


def columns_scaled(builder, b, more, line, panel, factors, panels: int, masks):
    """``B[k, :] = b[k, :] + factors[:] ∘ more[k, :]``."""
    places = [builder.add(factors, _INT64(4 * _LANES * part)) for part in range(len(masks))]
    scales = [_load(builder, place, mask=mask) for place, mask in zip(places, masks, strict=True)]

    def values(places):
        triples = zip(*(_load_panels(builder, place, panel, panels) for place in places), scales, strict=True)
        return [_multiply_add(builder, one, other, factor) for one, other, factor in triples]

    return [(b, line), (more, line)], values


_SCALING = {unscaled: None, rows_scaled: "rows", columns_scaled: "columns"}  # for `gemm_python`


def _load_panels(builder, first, panel, count: int) -> list:
    """A row of one panel, or of two."""
    starts = [first, builder.add(first, panel)][:count]
    return [_load(builder, builder.add(start, part)) for start in starts for part in _VECTOR_OFFSETS]


@intrinsic(gemm_python.segment_micro_kernel)
def segment_micro_kernel(typing, rows, a, a_step, e, runs, count, v, to_v, weight, single, product):
    """What ``G = Σ_k a[k, r] · e[k, 0:16]`` over the k of each of some runs is for:
    ``single += G``, ``product += G∘v`` and ``to_v += Σ_r weight[r]∘G[r]``.

    A run is three numbers, the first two its first k and the one after its last; the runs' v and to_v are side by side, and so are
    the rows of single, product and weight, 16 numbers each. There are 1 to PAIR_ROWS rows.
    """

    def generate(builder, rows, a, a_step, e, runs, count, v, to_v, weight, single, product):
        zero = ir.Constant(_VECTOR, [0.0] * _LANES)
        size = len(_VECTOR_OFFSETS) * rows
        targets = [
            place for first in (single, product) for place in _addresses(builder, first, _PANEL_ROW, rows)
        ]
        weights = _addresses(builder, weight, _PANEL_ROW, rows)

        def run(places, sums):
            at, own, to_own = places
            begin, end = (_load(builder, builder.add(at, _INT64(8 * number)), _INT64) for number in range(2))
            first = builder.add(a, builder.mul(begin, a_step))
            streams = [(builder.add(e, builder.mul(begin, _PANEL_ROW)), _PANEL_ROW)]
            found = _product_loop(
                builder, [zero] * size, first, _INT64(4), a_step, streams,
                lambda places: _load_panels(builder, places[0], _INT64(0), 1), builder.sub(end, begin),
            )  # fmt: skip
            factors = _load_panels(builder, own, _INT64(0), 1)
            totals = [_addresses(builder, to_own, _PANEL_ROW, 1), _load_panels(builder, to_own, _INT64(0), 1)]
            for i, (place, total) in enumerate(zip(weights, found, strict=True)):
                part = i % len(_VECTOR_OFFSETS)
                totals[1][part] = _multiply_add(builder, totals[1][part], total, _load(builder, place))
            for place, total in zip(*totals, strict=True):
                _store(builder, total, place)
            by = factors * rows
            more = [builder.fadd(one, total) for one, total in zip(sums[:size], found, strict=True)]
            pairs = zip(sums[size:], found, by, strict=True)
            return more + [_multiply_add(builder, one, total, factor) for one, total, factor in pairs]

        start = [_load(builder, target) for target in targets]
        streams = [(runs, _INT64(24)), (v, _PANEL_ROW), (to_v, _PANEL_ROW)]
        for target, total in zip(targets, _loop(builder, start, count, streams, run), strict=True):
            _store(builder, total, target)

    def code(context, builder, signature, arguments):
        rows, *others = arguments
        _switch_on_rows(builder, rows, SEGMENT_MR, lambda count: generate(builder, count, *others))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 11), code


@intrinsic(gemm_python.dot)
def dot(typing, a, b, count):
    """``Σ_i a[i] · b[i]`` over ``count`` numbers; always summed in the same order."""

    def code(context, builder, signature, arguments):
        first, second, count = arguments
        whole = builder.sdiv(count, _INT64(_LANES))
        step = _INT64(4 * _LANES)

        def turn(places, sums):
            return [_multiply_add(builder, sums[0], *(_load(builder, place) for place in places))]

        zero = ir.Constant(_VECTOR, [0.0] * _LANES)
        (total,) = _loop(builder, [zero], whole, [(first, step), (second, step)], turn)
        done = builder.mul(whole, step)
        mask = _lane_mask(builder, builder.srem(count, _INT64(_LANES)), 0)
        left = [_load(builder, builder.add(place, done), mask=mask) for place in (first, second)]
        return _horizontal_sum(builder, _multiply_add(builder, total, *left))

    return types.float32(types.int64, types.int64, types.int64), code


def _horizontal_sum(builder, vector):
    """The sum of a vector's numbers: by halves."""
    half = _LANES // 2
    while half:
        others = ir.Constant(
            ir.VectorType(_INT32, _LANES), [(lane + half) % _LANES for lane in range(_LANES)]
        )
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, others))
        half //= 2
    return builder.extract_element(vector, _INT32(0))


def _switch_on_rows(builder, rows, most: int, generate: Callable[[int], None]) -> None:
    """Code for a tile of one row, of two and so on: its registers are counted when it is made."""
    done = builder.function.append_basic_block("tiles.done")
    choice = builder.switch(rows, done)
    for count in range(1, most + 1):
        block = builder.function.append_basic_block(f"tile.of.{count}")
        choice.add_case(_INT64(count), block)
        builder.position_at_end(block)
        generate(count)
        builder.branch(done)
    builder.position_at_end(done)


def _product_loop(
    builder, start: Sequence, a, a_row, a_step, streams: Sequence, right: Callable, inner
) -> list:
    """The loop over k of ``Σ_k a[r, k] · B[k, :]``, added to ``start``: the vectors of one row after the other.

    Args:
        streams: where what B is made of lies, and how far a step of k is there.
        right: gives the vectors of ``B[k, :]`` from these places.
    """

    def turn(places, sums):
        vectors, more = right(places[1:]), []
        for r in range(len(sums) // len(vectors)):
            row = builder.add(places[0], builder.mul(a_row, _INT64(r)))
            left = _broadcast(builder, _load(builder, row, ir.FloatType()))
            more += [
                _multiply_add(builder, sums[len(more) + i], left, factor) for i, factor in enumerate(vectors)
            ]
        return more

    return _loop(builder, start, inner, [(a, a_step), *streams], turn)


def _loop(builder, start: Sequence, count, streams: Sequence, turn: Callable) -> list:
    """A loop of ``count`` turns over some sums.

    Args:
        start: vectors, the sums before.
        streams: places, and how far each moves in a turn.
        turn: takes places and sums, gives the next sums.
    """
    before = builder.block
    loop, body, done = (
        builder.function.append_basic_block(name) for name in ("loop", "loop.body", "loop.done")
    )
    builder.branch(loop)
    builder.position_at_end(loop)
    number, *places = (builder.phi(_INT64) for _ in range(1 + len(streams)))
    sums = [builder.phi(_VECTOR) for _ in start]
    builder.cbranch(builder.icmp_signed("<", number, count), body, done)
    builder.position_at_end(body)
    more = turn(places, sums)
    moves = [(number, _INT64(0), _INT64(1))]
    moves += [(place, first, step) for place, (first, step) in zip(places, streams, strict=True)]
    following = [builder.add(phi, step) for phi, _, step in moves]
    for (phi, first, _), after in zip(moves, following, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(after, builder.block)
    for phi, first, after in zip(sums, start, more, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(after, builder.block)
    builder.branch(loop)
    builder.position_at_end(done)
    return sums


def _addresses(builder, first, step, rows: int, *, panels: int = 1) -> list:
    """Where the vectors of each row lie; a second panel's beside the first's."""
    starts = [builder.add(first, builder.mul(step, _INT64(r))) for r in range(rows)]
    parts = [_INT64(4 * column) for column in range(0, panels * NR, _LANES)]
    return [builder.add(start, part) for start in starts for part in parts]


def _multiply_add(builder, total, left, right):
    """``total + left∘right``, rounded once on a CPU that can; the compiler may not change the order of sums."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(
        builder.module.declare_intrinsic(f"llvm.fmuladd.v{_LANES}f32", fnty=kind), [left, right, total]
    )


def _load(builder, address, kind=_VECTOR, *, mask=None):
    """A number or a vector; of a vector the lanes of the mask, if one is given, and 0 elsewhere."""
    place = builder.inttoptr(address, kind.as_pointer())
    if mask is not None:
        signature = ir.FunctionType(kind, [place.type, _INT32, mask.type, kind])
        load = builder.module.declare_intrinsic(f"llvm.masked.load.v{_LANES}f32.p0", fnty=signature)
        return builder.call(load, [place, _INT32(4), mask, ir.Constant(kind, [0.0] * _LANES)])
    value = builder.load(place)
    value.align = 4
    return value


def _store(builder, value, address, *, mask=None) -> None:
    place = builder.inttoptr(address, _VECTOR.as_pointer())
    if mask is None:
        builder.store(value, place).align = 4
        return
    signature = ir.FunctionType(ir.VoidType(), [_VECTOR, place.type, _INT32, mask.type])
    store = builder.module.declare_intrinsic(f"llvm.masked.store.v{_LANES}f32.p0", fnty=signature)
    builder.call(store, [value, place, _INT32(4), mask])


def _lane_mask(builder, columns, part: int):
    """Which lanes of a tile's vector belong to its first columns."""
    lanes = ir.Constant(ir.VectorType(_INT64, _LANES), [part * _LANES + lane for lane in range(_LANES)])
    return builder.icmp_signed("<", lanes, _broadcast(builder, columns))


def _broadcast(builder, scalar):
    """A vector of one number."""
    undefined = ir.Constant(ir.VectorType(scalar.type, _LANES), ir.Undefined)
    first = builder.insert_element(undefined, scalar, _INT32(0))
    everywhere = ir.Constant(ir.VectorType(_INT32, _LANES), [0] * _LANES)
    return builder.shuffle_vector(first, undefined, everywhere)
