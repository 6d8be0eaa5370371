from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from llvmlite import binding
from numba import njit

from deep_interest.ops.kernels import gemm_llvm

INNER = 7
KINDS = ["unscaled", "rows_scaled", "columns_scaled"]
CPUS = pytest.mark.parametrize(("features", "most"), [({}, 6), ({"avx512f": True}, 12)])


def written_for(features, monkeypatch):
    """The tiles as they are for a CPU with these features; any CPU can run them."""
    spec = spec_from_file_location("gemm_llvm_of_another_cpu", gemm_llvm.__file__)
    module = module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(binding, "get_host_cpu_features", lambda: features)
        spec.loader.exec_module(module)
    return module


def drawn(rng, *shapes):
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("kind", KINDS)
@CPUS
def test_tiles_for_narrow_and_for_wide_registers(features, most, kind, monkeypatch):
    cpu = written_for(features, monkeypatch)
    assert cpu.MR == most
    tile = cpu.micro_kernel(getattr(cpu, kind))

    @njit
    def multiply(rows, a, b, more, factors, start, c, columns):
        tile(
            rows, columns, a.ctypes.data, a.strides[0], 4, b.ctypes.data, more.ctypes.data, b.strides[1], b.strides[0],
            factors.ctypes.data, b.shape[1], start.ctypes.data, start.strides[0], c.ctypes.data, c.strides[0],
        )  # fmt: skip

    rng = np.random.default_rng(0)
    for rows in range(1, most + 1):
        a, b, more, factors = drawn(rng, (rows, INNER), (2, INNER, 16), (2, INNER, 16), 32)
        right, others = np.hstack(list(b)), np.hstack(list(more))
        if kind == "rows_scaled":
            right = right + factors[:INNER, None] * others
        elif kind == "columns_scaled":
            right = right + factors * others
        for columns in (*range(1, 17), 16 * cpu.PANELS_PER_CALL):
            start, c = drawn(rng, (rows, 35), (rows, 40))
            expected = c.copy()
            expected[:, :columns] = start[:, :columns] + a @ right[:, :columns]
            multiply(rows, a, b, more, factors, start, c, columns)
            np.testing.assert_allclose(c, expected, atol=1e-5)


@CPUS
def test_tiles_of_pairs(features, most, monkeypatch):
    cpu = written_for(features, monkeypatch)
    pair_tile = cpu.segment_micro_kernel

    @njit
    def gradients(rows, a, e, runs, v, to_v, weight, single, product):
        pair_tile(
            rows, a.ctypes.data, a.strides[0], e.ctypes.data, runs.ctypes.data, len(runs), v.ctypes.data, to_v.ctypes.data,
            weight.ctypes.data, single.ctypes.data, product.ctypes.data,
        )  # fmt: skip

    rng, runs = np.random.default_rng(0), np.array([[0, 2, 9], [2, 3, 9], [4, 7, 9]])
    for rows in range(1, cpu.SEGMENT_MR + 1):
        a, e, v, to_v = drawn(rng, (INNER, rows + 3), (INNER, 16), (3, 16), (3, 16))
        weight, single, product = drawn(rng, *[(rows, 16)] * 3)
        found = [a[first:last, :rows].T @ e[first:last] for first, last, _ in runs]
        expected = (
            to_v + np.stack([(weight * g).sum(0) for g in found]),
            single + sum(found),
            product + sum(g * own for g, own in zip(found, v, strict=True)),
        )
        gradients(rows, a, e, runs, v, to_v, weight, single, product)
        for ours, theirs in zip((to_v, single, product), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


@CPUS
def test_a_dot_of_any_length(features, most, monkeypatch):
    dot = written_for(features, monkeypatch).dot

    @njit
    def product(a, b):
        return dot(a.ctypes.data, b.ctypes.data, len(a))

    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 15, 16, 17, 40, 128):
        a, b = drawn(rng, size, size)
        assert product(a, b) == pytest.approx(a.astype(float) @ b.astype(float), abs=1e-4)
