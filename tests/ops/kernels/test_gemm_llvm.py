import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from llvmlite import binding
from numba import njit

from deep_interest.ops.kernels import gemm_llvm, llvm

INNER = 7
KINDS = ["unscaled", "rows_scaled", "columns_scaled"]
CPUS = pytest.mark.parametrize(("features", "most"), [({}, 6), ({"avx512f": True}, 12)])


def emitted_for(features, monkeypatch):
    """The micro-kernels that are emitted for a CPU with these features; any CPU can run them."""
    modules = []
    with monkeypatch.context() as patch:
        patch.setattr(binding, "get_host_cpu_features", lambda: features)
        for original in (llvm, gemm_llvm):
            spec = spec_from_file_location(f"{original.__name__}_of_another_cpu", original.__file__)
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            patch.setitem(
                sys.modules, original.__name__, module
            )  # gemm_llvm imports its building blocks from llvm
            modules.append(module)
    return modules[1]


def normal(rng, *shapes):
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@CPUS
def test_micro_kernels_for_narrow_and_wide_registers(features, most, kind, monkeypatch):
    cpu = emitted_for(features, monkeypatch)
    assert most == cpu.MR
    micro_kernel = cpu.micro_kernel(getattr(cpu, kind))

    @njit
    def multiply(rows, a, b, b2, factors, start, c, columns):
        right = (b.ctypes.data, b2.ctypes.data, b.strides[1], b.strides[0], factors.ctypes.data)
        source, target = (start.ctypes.data, start.strides[0]), (c.ctypes.data, c.strides[0])
        micro_kernel(rows, columns, b.shape[1], (a.ctypes.data, a.strides[0], 4), right, source, target)

    rng = np.random.default_rng(0)
    for rows in range(1, most + 1):
        a, b, b2, factors = normal(rng, (rows, INNER), (2, INNER, 16), (2, INNER, 16), 32)
        right, right2 = np.hstack(list(b)), np.hstack(list(b2))
        if kind == "rows_scaled":
            right = right + factors[:INNER, None] * right2
        elif kind == "columns_scaled":
            right = right + factors * right2
        for columns in (*range(1, 17), 16 * cpu.PANELS_PER_CALL):
            start, c = normal(rng, (rows, 35), (rows, 40))
            expected = c.copy()
            expected[:, :columns] = start[:, :columns] + a @ right[:, :columns]
            multiply(rows, a, b, b2, factors, start, c, columns)
            np.testing.assert_allclose(c, expected, atol=1e-5)


@CPUS
@pytest.mark.slow
def test_the_segment_micro_kernel_accumulates_all_three_gradients(features, most, monkeypatch):
    cpu = emitted_for(features, monkeypatch)
    micro_kernel = cpu.segment_micro_kernel

    @njit
    def gradients(rows, a, e, segments, v, grad_v, weight, single, product):
        left, query = (a.ctypes.data, a.strides[0]), (v.ctypes.data, grad_v.ctypes.data)
        sums = (weight.ctypes.data, single.ctypes.data, product.ctypes.data)
        micro_kernel(rows, left, e.ctypes.data, segments.ctypes.data, len(segments), query, sums)

    rng, segments = np.random.default_rng(0), np.array([[0, 2, 9], [2, 3, 9], [4, 7, 9]])
    for rows in range(1, cpu.SEGMENT_MR + 1):
        a, e, v, grad_v = normal(rng, (INNER, rows + 3), (INNER, 16), (3, 16), (3, 16))
        weight, single, product = normal(rng, *[(rows, 16)] * 3)
        products = [a[first:last, :rows].T @ e[first:last] for first, last, _ in segments]
        expected = (
            grad_v + np.stack([(weight * g).sum(0) for g in products]),
            single + sum(products),
            product + sum(g * own for g, own in zip(products, v, strict=True)),
        )
        gradients(rows, a, e, segments, v, grad_v, weight, single, product)
        for ours, theirs in zip((grad_v, single, product), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


@CPUS
def test_dot_products_of_any_length(features, most, monkeypatch):
    dot = emitted_for(features, monkeypatch).dot

    @njit
    def product(a, b):
        return dot(a.ctypes.data, b.ctypes.data, len(a))

    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 15, 16, 17, 40, 128):
        a, b = normal(rng, size, size)
        assert product(a, b) == pytest.approx(a.astype(float) @ b.astype(float), abs=1e-4)
