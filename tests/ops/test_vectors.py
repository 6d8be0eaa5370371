from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from llvmlite import binding
from numba import njit

from deep_interest.ops import vectors

INNER = 7


def written_for(features, monkeypatch):
    """The tiles as they are for a CPU with these features; any CPU can run them."""
    spec = spec_from_file_location("vectors_of_another_cpu", vectors.__file__)
    module = module_from_spec(spec)
    with monkeypatch.context() as patch:
        patch.setattr(binding, "get_host_cpu_features", lambda: features)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("features", "most"), [({}, 6), ({"avx512f": True}, 12)])
def test_tiles_for_narrow_and_for_wide_registers(features, most, monkeypatch):
    cpu = written_for(features, monkeypatch)
    assert cpu.ROWS == most
    tile, wide_tile, narrow_tile, pair_tile = cpu.tile, cpu.wide_tile, cpu.narrow_tile, cpu.pair_tile

    @njit
    def multiply(rows, a, b, c):
        tile(rows, a.ctypes.data, a.strides[0], 4, b.ctypes.data, len(b), c.ctypes.data, c.strides[0])

    @njit
    def multiply_two(rows, a, b, c):
        panel = b.strides[0]
        wide_tile(
            rows,
            a.ctypes.data,
            a.strides[0],
            4,
            b.ctypes.data,
            panel,
            b.shape[1],
            c.ctypes.data,
            c.strides[0],
        )

    @njit
    def multiply_some(rows, a, b, c, columns):
        at, to = a.ctypes.data, c.ctypes.data
        narrow_tile(rows, at, a.strides[0], 4, b.ctypes.data, len(b), to, c.strides[0], columns)

    @njit
    def gradients(rows, a, e, v, to_v, weight, single, product):
        pair_tile(
            rows, a.ctypes.data, a.strides[0], 4, e.ctypes.data, len(e), v.ctypes.data, to_v.ctypes.data,
            weight.ctypes.data, single.ctypes.data, product.ctypes.data,
        )  # fmt: skip

    rng = np.random.default_rng(0)
    for rows in range(1, most + 1):
        a, b, c, v, to_v, weight, single, product = (
            rng.normal(size=shape).astype(np.float32)
            for shape in ((rows, INNER), (INNER, 16), (rows, 16), 16, 16, *[(rows, 16)] * 3)
        )
        found = a @ b
        expected = c + found, to_v + (weight * found).sum(0), single + found, product + found * v
        multiply(rows, a, b, c)
        gradients(rows, a, b, v, to_v, weight, single, product)
        for ours, theirs in zip((c, to_v, single, product), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
        panels, both = np.stack([b, b[::-1]]), rng.normal(size=(rows, 40)).astype(np.float32)
        expected = both.copy()
        expected[:, :32] += np.hstack([found, a @ b[::-1]])
        multiply_two(rows, a, panels, both)
        np.testing.assert_allclose(both, expected, atol=1e-5)
        for columns in range(1, 16):
            some = rng.normal(size=(rows, 16)).astype(np.float32)
            expected = some.copy()
            expected[:, :columns] += found[:, :columns]
            multiply_some(rows, a, b, some, columns)
            np.testing.assert_allclose(some, expected, atol=1e-5)
