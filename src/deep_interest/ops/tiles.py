"""Matrix products of a few rows, for use within compiled loops: at the machine's speed from six rows on.

A tile of the result, up to six rows by sixteen columns, stays in vector registers while the products are added up; that is
more than a compiler finds by itself, so a tile's loop is written in LLVM's own vectors, which any CPU's registers are
mapped to.
"""

import numpy as np
from llvmlite import ir
from numba import float32, njit, types
from numba.extending import intrinsic

from deep_interest.ops.compiled import compiled

ROWS, COLUMNS = 6, 16  # of a tile
_VECTOR = ir.VectorType(ir.FloatType(), 8)
_FLAGS = ("contract", "reassoc", "nsz", "arcp")


@njit(inline="always")
def panel_count(columns):
    return (columns + COLUMNS - 1) // COLUMNS


@compiled
def panels(right, columns, out):
    """Bring a matrix into the order in which `add_product` reads it.

    Shape: the first ``columns`` of ``right (K, C)`` -> ``out (⌈columns / 16⌉, K, 16)`` or with more room; the last ones are
    filled up with zeros.
    """
    for j in range(panel_count(columns)):
        panel, first = out[j], j * COLUMNS
        width = min(COLUMNS, columns - first)
        for k in range(len(right)):
            given, row = right[k, first : first + width], panel[k]
            if width == COLUMNS:
                for c in range(COLUMNS):
                    row[c] = given[c]
            else:
                row[:] = 0
                for c in range(width):
                    row[c] = given[c]


@compiled
def rows_of(count, columns):
    """Room for rows of at least so many numbers: an odd number of cache lines each, which the cache spreads best."""
    lines = (columns + 15) // 16
    return np.empty((count, 16 * (lines + 1 - lines % 2)), float32)


@compiled
def panels_of(right):
    """As `panels`, in new room."""
    inner, columns = right.shape
    out = np.empty((panel_count(columns), inner, COLUMNS), float32)
    panels(right, columns, out)
    return out


@compiled
def add_product(left, right, out):
    """``out += left @ right``.

    Shape: ``left (R, K)`` of any strides, ``right`` as `panels` of ``(K, C)`` in the same room or more, ``out (R, C)``.
    """
    rows, inner = left.shape
    columns = out.shape[1]
    whole = columns // COLUMNS
    left_row, left_step = left.strides
    out_row = out.strides[0]
    a, c = left.ctypes.data, out.ctypes.data
    for j in range(whole):
        b = right.ctypes.data + j * right.strides[0]
        for i in range(0, rows, ROWS):
            _tile(
                min(ROWS, rows - i), a + i * left_row, left_row, left_step, b, inner,
                c + i * out_row + j * COLUMNS * 4, out_row,
            )  # fmt: skip
    if whole * COLUMNS < columns:
        _last_columns(left, right[whole], out[:, whole * COLUMNS :])


@compiled
def _last_columns(left, panel, out):
    """The columns that do not fill a tile."""
    inner = left.shape[1]
    left_row, left_step = left.strides
    edge = np.empty((ROWS, COLUMNS), float32)
    for i in range(0, len(left), ROWS):
        rows = min(ROWS, len(left) - i)
        edge[:] = 0
        _tile(
            rows, left.ctypes.data + i * left_row, left_row, left_step, panel.ctypes.data, inner, edge.ctypes.data, COLUMNS * 4
        )  # fmt: skip
        for r in range(rows):
            total, more = out[i + r], edge[r]
            for c in range(len(total)):
                total[c] += more[c]


@compiled
def _tile(rows, a, a_row, a_step, b, inner, c, c_row):
    if rows == 6:
        _tile_6(a, a_row, a_step, b, inner, c, c_row)
    elif rows == 5:
        _tile_5(a, a_row, a_step, b, inner, c, c_row)
    elif rows == 4:
        _tile_4(a, a_row, a_step, b, inner, c, c_row)
    elif rows == 3:
        _tile_3(a, a_row, a_step, b, inner, c, c_row)
    elif rows == 2:
        _tile_2(a, a_row, a_step, b, inner, c, c_row)
    else:
        _tile_1(a, a_row, a_step, b, inner, c, c_row)


def _make_tile(rows: int):
    """A tile of so many rows: ``c[r, 0:16] += Σ_k a[r, k] · b[k, 0:16]``.

    It takes addresses and distances in bytes: of ``a`` and of its next row and next k, of ``b``, the number of k, of ``c``
    and of its next row.
    """

    @intrinsic
    def tile(typing, a, a_row, a_step, b, inner, c, c_row):
        return types.void(*[types.int64] * 7), generate

    def generate(context, builder, signature, arguments):
        a, a_row, a_step, b, inner, c, c_row = arguments
        number = ir.IntType(64)
        halves = [
            builder.add(builder.add(c, builder.mul(c_row, number(r))), number(32 * half))
            for r in range(rows)
            for half in range(2)
        ]
        start = [_load(builder, at, _VECTOR) for at in halves]
        before = builder.block
        loop, body, done = (
            builder.function.append_basic_block(name) for name in ("tile", "tile.body", "tile.done")
        )
        builder.branch(loop)
        builder.position_at_end(loop)
        k, at_a, at_b = (builder.phi(number) for _ in range(3))
        sums = [builder.phi(_VECTOR) for _ in halves]
        builder.cbranch(builder.icmp_signed("<", k, inner), body, done)
        builder.position_at_end(body)
        right = [_load(builder, builder.add(at_b, number(32 * half)), _VECTOR) for half in range(2)]
        more = []
        for r in range(rows):
            left = _spread(
                builder, _load(builder, builder.add(at_a, builder.mul(a_row, number(r))), ir.FloatType())
            )
            for half in range(2):
                product = builder.fmul(left, right[half], flags=_FLAGS)
                more.append(builder.fadd(sums[2 * r + half], product, flags=_FLAGS))
        steps = [(k, number(0), number(1)), (at_a, a, a_step), (at_b, b, number(4 * COLUMNS))]
        for phi, first, step in steps:
            phi.add_incoming(first, before)
            phi.add_incoming(builder.add(phi, step), body)
        for phi, first, following in zip(sums, start, more, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, body)
        builder.branch(loop)
        builder.position_at_end(done)
        for at, total in zip(halves, sums, strict=True):
            builder.store(total, builder.inttoptr(at, _VECTOR.as_pointer())).align = 4
        return context.get_dummy_value()

    return tile


def _load(builder, address, kind):
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 4
    return value


def _spread(builder, scalar):
    """A vector of one number."""
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))


_tile_1, _tile_2, _tile_3, _tile_4, _tile_5, _tile_6 = (_make_tile(rows) for rows in range(1, ROWS + 1))
