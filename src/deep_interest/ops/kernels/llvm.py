"""Building blocks of SIMD code in LLVM IR: vectors of float32, loads and stores with masks, loops, multiply-add.

Addresses and strides are int64 values in bytes. LLVM maps the vectors to the registers of any CPU.
"""

from collections.abc import Callable, Sequence

from llvmlite import binding, ir

from deep_interest.ops.kernels import gemm_python

NR = gemm_python.NR  # columns of a panel
HAS_AVX512 = binding.get_host_cpu_features().get("avx512f", False)
LANES = NR if HAS_AVX512 else NR // 2  # of a vector: 32 registers of 16 floats, or 16 registers of 8
VECTOR, INT64, INT32 = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64), ir.IntType(32)
PANEL_ROW = INT64(4 * NR)  # bytes of a row of a panel
VECTOR_OFFSETS = [
    INT64(4 * column) for column in range(0, NR, LANES)
]  # bytes at which the vectors of a panel row begin
ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def load(builder, address, kind=VECTOR, *, mask=None):
    """Load a value.

    Args:
        builder: builder of the function.
        address: address of the value.
        kind: LLVM type of the value.
        mask: lanes of a vector to load; the others are 0. None for all.
    """
    pointer = builder.inttoptr(address, kind.as_pointer())
    if mask is not None:
        signature = ir.FunctionType(kind, [pointer.type, INT32, mask.type, kind])
        masked_load = builder.module.declare_intrinsic(f"llvm.masked.load.v{LANES}f32.p0", fnty=signature)
        return builder.call(masked_load, [pointer, INT32(4), mask, ZERO])
    value = builder.load(pointer)
    value.align = 4
    return value


def store(builder, value, address, *, mask=None) -> None:
    """Store a vector, or only the lanes of a mask."""
    pointer = builder.inttoptr(address, VECTOR.as_pointer())
    if mask is None:
        builder.store(value, pointer).align = 4
        return
    signature = ir.FunctionType(ir.VoidType(), [VECTOR, pointer.type, INT32, mask.type])
    masked_store = builder.module.declare_intrinsic(f"llvm.masked.store.v{LANES}f32.p0", fnty=signature)
    builder.call(masked_store, [value, pointer, INT32(4), mask])


def lane_mask(builder, columns, index: int):
    """Return the mask of the lanes of a panel's vector ``index`` that belong to the first ``columns`` columns."""
    lanes = ir.Constant(ir.VectorType(INT64, LANES), [index * LANES + lane for lane in range(LANES)])
    return builder.icmp_signed("<", lanes, broadcast(builder, columns))


def broadcast(builder, scalar):
    """Return a vector of equal values."""
    undefined = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, scalar, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))


def multiply_add(builder, total, left, right):
    """Return ``total + left ∘ right``, fused on CPUs that can; LLVM may not reorder the sums."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    fmuladd = builder.module.declare_intrinsic(f"llvm.fmuladd.v{LANES}f32", fnty=kind)
    return builder.call(fmuladd, [left, right, total])


def constant(value: float):
    """Return a vector of equal constants."""
    return ir.Constant(VECTOR, [value] * LANES)


def reciprocal(builder, vector):
    """Return ``1 / vector`` to about 1e-7: with AVX-512 an estimate and a step of Newton's method, which take less time than a division."""
    if not HAS_AVX512:
        return builder.fdiv(constant(1.0), vector)
    mask = ir.IntType(LANES)
    kind = ir.FunctionType(VECTOR, [VECTOR, VECTOR, mask])
    estimate = builder.module.declare_intrinsic("llvm.x86.avx512.rcp14.ps.512", fnty=kind)
    y = builder.call(estimate, [vector, ZERO, ir.Constant(mask, -1)])
    return multiply_add(builder, y, y, multiply_add(builder, constant(1.0), builder.fneg(vector), y))


def horizontal_sum(builder, vector):
    """Return the sum of a vector's lanes, by halves."""
    half = LANES // 2
    while half:
        rotation = ir.Constant(ir.VectorType(INT32, LANES), [(lane + half) % LANES for lane in range(LANES)])
        vector = builder.fadd(vector, builder.shuffle_vector(vector, vector, rotation))
        half //= 2
    return builder.extract_element(vector, INT32(0))


def vector_addresses(builder, first, row_stride, rows: int, *, panels: int = 1) -> list:
    """Return the addresses of the vectors of each row; those of a second panel follow the first's."""
    starts = [builder.add(first, builder.mul(row_stride, INT64(r))) for r in range(rows)]
    offsets = [INT64(4 * column) for column in range(0, panels * NR, LANES)]
    return [builder.add(start, offset) for start in starts for offset in offsets]


def load_panels(builder, first, panel_stride, panels: int) -> list:
    """Load a row of one panel, or of two."""
    starts = [first, builder.add(first, panel_stride)][:panels]
    return [load(builder, builder.add(start, offset)) for start in starts for offset in VECTOR_OFFSETS]


def switch_on_rows(builder, rows, most: int, generate: Callable[[int], None]) -> None:
    """Emit one version of the code for each number of rows, since registers are assigned when the code is generated.

    Args:
        builder: builder of the function.
        rows: number of rows at run time.
        most: largest number of rows.
        generate: emits the version for a number of rows.
    """
    done = builder.function.append_basic_block("rows.done")
    switch = builder.switch(rows, done)
    for count in range(1, most + 1):
        block = builder.function.append_basic_block(f"rows.{count}")
        switch.add_case(INT64(count), block)
        builder.position_at_end(block)
        generate(count)
        builder.branch(done)
    builder.position_at_end(done)


def loop(builder, start: Sequence, count, streams: Sequence, body: Callable) -> list:
    """Emit a loop that accumulates vectors.

    Args:
        builder: builder of the function.
        start: initial values of the accumulators.
        count: number of iterations.
        streams: pairs of an address and its stride per iteration.
        body: takes the addresses and the accumulators of an iteration, returns the next accumulators.

    Returns:
        The accumulators after the loop.
    """
    entry = builder.block
    names = ("loop", "loop.body", "loop.done")
    head, block, done = (builder.function.append_basic_block(name) for name in names)
    builder.branch(head)
    builder.position_at_end(head)
    iteration, *addresses = (builder.phi(INT64) for _ in range(1 + len(streams)))
    accumulators = [builder.phi(VECTOR) for _ in start]
    builder.cbranch(builder.icmp_signed("<", iteration, count), block, done)
    builder.position_at_end(block)
    results = body(addresses, accumulators)
    moves = [(iteration, INT64(0), INT64(1))]
    moves += [(address, first, step) for address, (first, step) in zip(addresses, streams, strict=True)]
    following = [builder.add(phi, step) for phi, _, step in moves]
    for (phi, first, _), value in zip(moves, following, strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(value, builder.block)
    for phi, first, value in zip(accumulators, start, results, strict=True):
        phi.add_incoming(first, entry)
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(done)
    return accumulators


def product_loop(
    builder, start: Sequence, left: Sequence, streams: Sequence, load_right: Callable, inner
) -> list:
    """Emit the loop over k of ``start[r, :] + Σ_k a[r, k] · B[k, :]``.

    Args:
        builder: builder of the function.
        start: vectors of the rows r, row after row.
        left: address, row stride and step stride of a.
        streams: pairs of an address and its stride per k of what B is made of.
        load_right: takes the addresses of an iteration, returns the vectors of ``B[k, :]``.
        inner: number of k.

    Returns:
        The vectors of the sums, as ``start``.
    """
    a, row_stride, step = left

    def body(addresses, sums):
        vectors, results = load_right(addresses[1:]), []
        for r in range(len(sums) // len(vectors)):
            address = builder.add(addresses[0], builder.mul(row_stride, INT64(r)))
            factor = broadcast(builder, load(builder, address, ir.FloatType()))
            results += [
                multiply_add(builder, sums[len(results) + i], factor, vector)
                for i, vector in enumerate(vectors)
            ]
        return results

    return loop(builder, start, inner, [(a, step), *streams], body)
