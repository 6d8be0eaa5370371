"""Activations whose bend is learnt."""

import numpy as np
from numba import njit
from numpy import float32

from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds


@kernel
def prelu_forward(x, slope, y, part, parts):
    first, last = partition_bounds(len(x), part, parts)
    for i in range(first, last):
        prelu_row(x[i], slope, y[i])


@kernel
def prelu_backward(x, slope, grad, to_x, to_slope, part, parts):
    first, last = partition_bounds(len(x), part, parts)
    for i in range(first, last):
        prelu_row_backward(x[i], slope, grad[i], to_x[i], to_slope[part])


@njit(inline="always")
def prelu_row(x, slope, y):
    """PReLU of one row."""
    for j in range(len(slope)):
        value = x[j]
        y[j] = value if value > 0 else slope[j] * value


@njit(inline="always")
def prelu_row_backward(x, slope, grad, to_x, to_slope):
    """The gradient of one row; the slope's is added up."""
    for j in range(
        len(slope)
    ):  # few arrays a loop: a compiler proves that they do not overlap, and vectorises
        to_x[j] = grad[j] if x[j] > 0 else grad[j] * slope[j]
    for j in range(len(slope)):
        to_slope[j] += float32(0) if x[j] > 0 else grad[j] * x[j]


@njit(inline="always")
def sigmoid(x):
    half = float32(0.5)
    return half + half * tanh(half * x)


@njit(inline="always")
def tanh(x):
    """``tanh(x)`` to 4e-7 as a quotient of polynomials in x², fitted on [-8, 8]; beyond, float32 knows no difference to ±1."""
    x = min(max(x, float32(-8)), float32(8))
    s = x * x
    over = float32(0.0035716029) + s * (float32(2.1894743e-05) + s * float32(1.5230533e-08))
    over = float32(1) + s * (float32(0.13444502) + s * over)
    under = float32(0.026164461) + s * (float32(0.00034113000) + s * float32(8.5224931e-07))
    under = float32(1) + s * (float32(0.46777829) + s * under)
    return x * over / under


@kernel
def moment_sums(s, sums, part, parts):
    first, last = partition_bounds(len(s), part, parts)
    total, squares = sums[part, 0], sums[part, 1]
    for i in range(first, last):
        row = s[i]
        for j in range(len(row)):
            total[j] += np.float64(row[j])
        for j in range(len(row)):
            squares[j] += np.float64(row[j]) * np.float64(row[j])


@kernel
def dice_forward(s, alpha, mean, scale, p, y, part, parts):
    first, last = partition_bounds(len(s), part, parts)
    for i in range(first, last):
        row, by, out = s[i], p[i], y[i]
        for j in range(len(row)):
            by[j] = sigmoid((row[j] - mean[j]) * scale[j])
        for j in range(len(row)):
            out[j] = row[j] * (alpha[j] + by[j] * (float32(1) - alpha[j]))


@kernel
def dice_backward_sums(grad, s, alpha, mean, p, to_standard, sums, part, parts):
    """The gradient of the standardised rows, its sums as it is and by ``s - mean``, and alpha's gradient."""
    first, last = partition_bounds(len(s), part, parts)
    to_alpha, total, products = sums[part, 0], sums[part, 1], sums[part, 2]
    for i in range(first, last):
        row, flow, by, out = s[i], grad[i], p[i], to_standard[i]
        for j in range(len(row)):
            out[j] = flow[j] * row[j] * (float32(1) - by[j])
        for j in range(len(row)):
            to_alpha[j] += out[j]
        for j in range(len(row)):
            out[j] *= by[j] * (float32(1) - alpha[j])
        for j in range(len(row)):
            total[j] += out[j]
        for j in range(len(row)):
            products[j] += out[j] * (row[j] - mean[j])


@kernel
def dice_backward(grad, s, alpha, mean, scale, total, products, p, to_s, part, parts):
    """``to_s`` comes as `_backward_sums` leaves it."""
    first, last = partition_bounds(len(s), part, parts)
    for i in range(first, last):
        row, flow, by, out = s[i], grad[i], p[i], to_s[i]
        for j in range(len(row)):
            out[j] = scale[j] * out[j] + flow[j] * (alpha[j] + by[j] * (float32(1) - alpha[j]))
        for j in range(len(row)):
            out[j] -= total[j] + products[j] * (row[j] - mean[j])
