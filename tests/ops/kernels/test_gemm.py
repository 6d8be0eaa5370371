import numpy as np
import pytest

from deep_interest.ops.kernels.gemm import matmul_add, matmul_bias, pack, row_buffer


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 1, 1), (7, 5, 17), (6, 16, 16), (13, 33, 40), (25, 3, 100), (12, 9, 16)],
)
def test_products_equal_those_of_numpy(rows, inner, columns):
    rng = np.random.default_rng(0)
    shapes = (rows, inner), (inner, columns), (rows, columns)
    left, right, out = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    expected = out + left @ right
    matmul_add(left, pack(right), out)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    matmul_add(np.ascontiguousarray(left.T).T, pack(right), out)
    np.testing.assert_allclose(out, expected + left @ right, atol=1e-5)
    rows_of_right = row_buffer(inner, columns)
    rows_of_right[:] = np.nan  # padding of the rows is never read
    rows_of_right[:, :columns] = right
    bias = left[:, 0].mean() * right[0]
    matmul_bias(bias, left, rows_of_right, out)
    np.testing.assert_allclose(out, bias + left @ right, atol=1e-5)


def test_buffers_are_aligned_to_cache_lines():
    for columns in (1, 16, 40):
        for buffer in (row_buffer(3, columns), pack(np.ones((3, columns), np.float32))):
            assert buffer.ctypes.data % 64 == 0
            assert buffer.flags.c_contiguous
