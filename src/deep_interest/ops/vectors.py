"""Loops over a few vector registers, written in LLVM's own vectors: what a compiler does not find by itself.

All take addresses and distances in bytes, of float32 numbers; any CPU's registers are mapped to.
"""

from collections.abc import Callable, Sequence

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

COLUMNS = 16  # of a tile
# Thirty-two registers of sixteen numbers, or half of both.
WIDE = binding.get_host_cpu_features().get("avx512f", False)
ROWS = 12 if WIDE else 6  # of a tile: what the registers hold
TOGETHER = 2 if WIDE else 1  # panels: a number of a row is read for so many
_LANES = COLUMNS if WIDE else COLUMNS // 2
_VECTOR, _NUMBER, _INT = ir.VectorType(ir.FloatType(), _LANES), ir.IntType(64), ir.IntType(32)
_PARTS = [_NUMBER(4 * column) for column in range(0, COLUMNS, _LANES)]  # where a row's vectors begin


@intrinsic
def tile(typing, rows, a, a_row, a_step, b, inner, c, c_row):
    """``c[r, 0:16] += Σ_k a[r, k] · b[k, 0:16]`` for 1 to ROWS rows r."""

    def generate(builder, rows, a, a_row, a_step, b, inner, c, c_row):
        _add_product_to(_places(builder, c, c_row, rows), builder, a, a_row, a_step, [b], inner)

    return types.void(*[types.int64] * 8), _for_each_number_of_rows(generate)


@intrinsic
def wide_tile(typing, rows, a, a_row, a_step, b, b_panel, inner, c, c_row):
    """As `tile`, of two panels: ``c[r, 0:32]``; the second panel lies ``b_panel`` after the first."""

    def generate(builder, rows, a, a_row, a_step, b, b_panel, inner, c, c_row):
        second = builder.add(c, _NUMBER(4 * COLUMNS))
        rows_of_both = zip(
            _places_by_row(builder, c, c_row, rows), _places_by_row(builder, second, c_row, rows), strict=True
        )
        places = [place for both in rows_of_both for row in both for place in row]
        _add_product_to(places, builder, a, a_row, a_step, [b, builder.add(b, b_panel)], inner)

    return types.void(*[types.int64] * 9), _for_each_number_of_rows(generate)


@intrinsic
def narrow_tile(typing, rows, a, a_row, a_step, b, inner, c, c_row, columns):
    """As `tile`, of its first columns only: ``c[r, 0:columns]``."""

    def generate(builder, rows, a, a_row, a_step, b, inner, c, c_row, columns):
        masks = [_first_lanes(builder, columns, part) for part in range(len(_PARTS))] * rows
        places = _places(builder, c, c_row, rows)
        start = [_load_some(builder, place, mask) for place, mask in zip(places, masks, strict=True)]
        sums = _product(builder, start, a, a_row, a_step, [b], inner)
        for place, mask, total in zip(places, masks, sums, strict=True):
            _store_some(builder, total, place, mask)

    return types.void(*[types.int64] * 9), _for_each_number_of_rows(generate)


@intrinsic
def pair_tile(typing, rows, a, a_row, a_step, e, inner, v, to_v, weight, single, product):
    """What ``G = Σ_k a[r, k] · e[k, 0:16]`` is for: ``single += G``, ``product += G∘v`` and ``to_v += Σ_r weight[r]∘G[r]``.

    The rows of single, product and weight are 16 numbers long and side by side; there are 1 to ROWS.
    """

    def generate(builder, rows, a, a_row, a_step, e, inner, v, to_v, weight, single, product):
        zero = ir.Constant(_VECTOR, [0.0] * _LANES)
        sums = _product(builder, [zero] * (len(_PARTS) * rows), a, a_row, a_step, [e], inner)
        step = _NUMBER(4 * COLUMNS)
        for place, total in zip(_places(builder, single, step, rows), sums, strict=True):
            _store(builder, builder.fadd(_load(builder, place), total), place)
        by = [_load(builder, place) for place in _places(builder, v, step, 1)] * rows
        for place, total, factor in zip(_places(builder, product, step, rows), sums, by, strict=True):
            _store(builder, _add_product(builder, _load(builder, place), total, factor), place)
        targets = _places(builder, to_v, step, 1)
        found = [_load(builder, target) for target in targets]
        for i, (place, total) in enumerate(zip(_places(builder, weight, step, rows), sums, strict=True)):
            part = i % len(_PARTS)
            found[part] = _add_product(builder, found[part], total, _load(builder, place))
        for target, total in zip(targets, found, strict=True):
            _store(builder, total, target)

    return types.void(*[types.int64] * 11), _for_each_number_of_rows(generate)


def _for_each_number_of_rows(generate: Callable) -> Callable:
    """Code for a tile of one row, of two and so on: its registers are counted when it is made."""

    def code(context, builder, signature, arguments):
        rows, *others = arguments
        function = builder.function
        done = function.append_basic_block("tiles.done")
        cases = [function.append_basic_block(f"tile.of.{count}") for count in range(1, ROWS + 1)]
        choice = builder.switch(rows, done)
        for count, block in enumerate(cases, 1):
            choice.add_case(_NUMBER(count), block)
            builder.position_at_end(block)
            generate(builder, count, *others)
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return code


@intrinsic
def add_multiple(typing, out, a, b, factor):
    """``out[0:16] = a[0:16] + factor · b[0:16]``."""

    def generate(context, builder, signature, arguments):
        *places, factor = arguments
        by = _spread(builder, _load(builder, factor, ir.FloatType()))
        _combine(builder, *places, [by] * len(_PARTS))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@intrinsic
def add_products(typing, out, a, b, factors):
    """``out[0:16] = a[0:16] + factors[0:16] ∘ b[0:16]``."""

    def generate(context, builder, signature, arguments):
        *places, factors = arguments
        _combine(builder, *places, [_load(builder, builder.add(factors, part)) for part in _PARTS])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


def _combine(builder, out, a, b, factors: Sequence) -> None:
    for part, factor in zip(_PARTS, factors, strict=True):
        given, other = (_load(builder, builder.add(place, part)) for place in (a, b))
        _store(builder, _add_product(builder, given, other, factor), builder.add(out, part))


def _add_product_to(places: Sequence, builder, *product) -> None:
    """Add `_product`'s sums to what lies at their places."""
    sums = _product(builder, [_load(builder, place) for place in places], *product)
    for place, total in zip(places, sums, strict=True):
        _store(builder, total, place)


def _product(builder, start: Sequence, a, a_row, a_step, panels: Sequence, inner) -> list:
    """The loop over k of ``Σ_k a[r, k] · b[k, 0:16]`` of each panel b, added to ``start``: the vectors of one row after the other."""
    before = builder.block
    loop, body, done = (
        builder.function.append_basic_block(name) for name in ("tile", "tile.body", "tile.done")
    )
    builder.branch(loop)
    builder.position_at_end(loop)
    k, at_a, *at_b = (builder.phi(_NUMBER) for _ in range(2 + len(panels)))
    sums = [builder.phi(_VECTOR) for _ in start]
    builder.cbranch(builder.icmp_signed("<", k, inner), body, done)
    builder.position_at_end(body)
    right = [_load(builder, builder.add(at, part)) for at in at_b for part in _PARTS]
    more = []
    for r in range(len(start) // len(right)):
        row = builder.add(at_a, builder.mul(a_row, _NUMBER(r)))
        left = _spread(builder, _load(builder, row, ir.FloatType()))
        for factor in right:
            more.append(_add_product(builder, sums[len(more)], left, factor))
    steps = [(k, _NUMBER(0), _NUMBER(1)), (at_a, a, a_step)]
    steps += [(at, b, _NUMBER(4 * COLUMNS)) for at, b in zip(at_b, panels, strict=True)]
    for phi, first, step in steps:
        phi.add_incoming(first, before)
        phi.add_incoming(builder.add(phi, step), body)
    for phi, first, following in zip(sums, start, more, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(following, body)
    builder.branch(loop)
    builder.position_at_end(done)
    return sums


def _places(builder, first, step, rows: int) -> list:
    """Where the vectors of each row lie."""
    return [place for row in _places_by_row(builder, first, step, rows) for place in row]


def _places_by_row(builder, first, step, rows: int) -> list[list]:
    starts = [builder.add(first, builder.mul(step, _NUMBER(r))) for r in range(rows)]
    return [[builder.add(start, part) for part in _PARTS] for start in starts]


def _add_product(builder, total, left, right):
    """``total + left∘right``, rounded once on a CPU that can; the compiler may not change the order of sums."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(
        builder.module.declare_intrinsic(f"llvm.fmuladd.v{_LANES}f32", fnty=kind), [left, right, total]
    )


def _load(builder, address, kind=_VECTOR):
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 4
    return value


def _store(builder, value, address) -> None:
    builder.store(value, builder.inttoptr(address, _VECTOR.as_pointer())).align = 4


def _first_lanes(builder, columns, part: int):
    """Which lanes of a tile's vector belong to its first columns."""
    lanes = ir.Constant(ir.VectorType(_NUMBER, _LANES), [part * _LANES + lane for lane in range(_LANES)])
    return builder.icmp_signed("<", lanes, _spread(builder, columns))


def _load_some(builder, address, mask):
    """The lanes of the mask; 0 elsewhere."""
    place = builder.inttoptr(address, _VECTOR.as_pointer())
    kind = ir.FunctionType(_VECTOR, [place.type, _INT, mask.type, _VECTOR])
    load = builder.module.declare_intrinsic(f"llvm.masked.load.v{_LANES}f32.p0", fnty=kind)
    return builder.call(load, [place, _INT(4), mask, ir.Constant(_VECTOR, [0.0] * _LANES)])


def _store_some(builder, value, address, mask) -> None:
    place = builder.inttoptr(address, _VECTOR.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [_VECTOR, place.type, _INT, mask.type])
    store = builder.module.declare_intrinsic(f"llvm.masked.store.v{_LANES}f32.p0", fnty=kind)
    builder.call(store, [value, place, _INT(4), mask])


def _spread(builder, scalar):
    """A vector of one number."""
    undefined = ir.Constant(ir.VectorType(scalar.type, _LANES), ir.Undefined)
    first = builder.insert_element(undefined, scalar, _INT(0))
    everywhere = ir.Constant(ir.VectorType(_INT, _LANES), [0] * _LANES)
    return builder.shuffle_vector(first, undefined, everywhere)
