"""Loops over a few vector registers, written in LLVM's own vectors: what a compiler does not find by itself.

All take addresses and distances in bytes, of float32 numbers; any CPU's registers are mapped to.
"""

from collections.abc import Callable, Sequence

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

ROWS, COLUMNS = 6, 16  # of a tile: what the registers hold
_VECTOR, _NUMBER = ir.VectorType(ir.FloatType(), 8), ir.IntType(64)
_HALVES = (_NUMBER(0), _NUMBER(32))  # distances of eight columns each


def tile_of(rows: int) -> Callable:
    """``c[r, 0:16] += Σ_k a[r, k] · b[k, 0:16]`` for so many rows r."""

    @intrinsic
    def tile(typing, a, a_row, a_step, b, inner, c, c_row):
        return types.void(*[types.int64] * 7), generate

    def generate(context, builder, signature, arguments):
        *product, c, c_row = arguments
        places = _places(builder, c, c_row, rows)
        sums = _product(builder, [_load(builder, place) for place in places], *product)
        for place, total in zip(places, sums, strict=True):
            _store(builder, total, place)
        return context.get_dummy_value()

    return tile


def pair_tile_of(rows: int) -> Callable:
    """What ``G = Σ_k a[r, k] · e[k, 0:16]`` is for: ``single += G``, ``product += G∘v`` and ``to_v += Σ_r weight[r]∘G[r]``.

    The rows of single, product and weight are 16 numbers long and side by side.
    """

    @intrinsic
    def tile(typing, a, a_row, a_step, e, inner, v, to_v, weight, single, product):
        return types.void(*[types.int64] * 10), generate

    def generate(context, builder, signature, arguments):
        *factors, v, to_v, weight, single, product = arguments
        zero = ir.Constant(_VECTOR, [0.0] * 8)
        sums = _product(builder, [zero] * (2 * rows), *factors)
        step = _NUMBER(4 * COLUMNS)
        for place, total in zip(_places(builder, single, step, rows), sums, strict=True):
            _store(builder, builder.fadd(_load(builder, place), total), place)
        by = [_load(builder, builder.add(v, half)) for half in _HALVES]
        for i, (place, total) in enumerate(zip(_places(builder, product, step, rows), sums, strict=True)):
            _store(builder, _add_product(builder, _load(builder, place), total, by[i % 2]), place)
        targets = [builder.add(to_v, half) for half in _HALVES]
        found = [_load(builder, target) for target in targets]
        for i, (place, total) in enumerate(zip(_places(builder, weight, step, rows), sums, strict=True)):
            found[i % 2] = _add_product(builder, found[i % 2], total, _load(builder, place))
        for target, total in zip(targets, found, strict=True):
            _store(builder, total, target)
        return context.get_dummy_value()

    return tile


@intrinsic
def add_multiple(typing, out, a, b, factor):
    """``out[0:16] = a[0:16] + factor · b[0:16]``."""

    def generate(context, builder, signature, arguments):
        *places, factor = arguments
        by = _spread(builder, _load(builder, factor, ir.FloatType()))
        _combine(builder, *places, [by, by])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@intrinsic
def add_products(typing, out, a, b, factors):
    """``out[0:16] = a[0:16] + factors[0:16] ∘ b[0:16]``."""

    def generate(context, builder, signature, arguments):
        *places, factors = arguments
        _combine(builder, *places, [_load(builder, builder.add(factors, half)) for half in _HALVES])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


def _combine(builder, out, a, b, factors: Sequence) -> None:
    for half, factor in zip(_HALVES, factors, strict=True):
        given, other = (_load(builder, builder.add(place, half)) for place in (a, b))
        _store(builder, _add_product(builder, given, other, factor), builder.add(out, half))


def _product(builder, start: Sequence, a, a_row, a_step, b, inner) -> list:
    """The loop over k of ``Σ_k a[r, k] · b[k, 0:16]``, added to ``start``: two vectors a row."""
    before = builder.block
    loop, body, done = (
        builder.function.append_basic_block(name) for name in ("tile", "tile.body", "tile.done")
    )
    builder.branch(loop)
    builder.position_at_end(loop)
    k, at_a, at_b = (builder.phi(_NUMBER) for _ in range(3))
    sums = [builder.phi(_VECTOR) for _ in start]
    builder.cbranch(builder.icmp_signed("<", k, inner), body, done)
    builder.position_at_end(body)
    right = [_load(builder, builder.add(at_b, half)) for half in _HALVES]
    more = []
    for r in range(len(start) // 2):
        row = builder.add(at_a, builder.mul(a_row, _NUMBER(r)))
        left = _spread(builder, _load(builder, row, ir.FloatType()))
        more += [_add_product(builder, sums[2 * r + half], left, right[half]) for half in range(2)]
    steps = [(k, _NUMBER(0), _NUMBER(1)), (at_a, a, a_step), (at_b, b, _NUMBER(4 * COLUMNS))]
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
    """Where the two vectors of each row lie."""
    return [
        builder.add(builder.add(first, builder.mul(step, _NUMBER(r))), half)
        for r in range(rows)
        for half in _HALVES
    ]


def _add_product(builder, total, left, right):
    """``total + left∘right``, rounded once on a CPU that can; the compiler may not change the order of sums."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(
        builder.module.declare_intrinsic("llvm.fmuladd.v8f32", fnty=kind), [left, right, total]
    )


def _load(builder, address, kind=_VECTOR):
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 4
    return value


def _store(builder, value, address) -> None:
    builder.store(value, builder.inttoptr(address, _VECTOR.as_pointer())).align = 4


def _spread(builder, scalar):
    """A vector of one number."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))
