"""Loops of the activations: PReLU, Dice, and float32 sigmoid and tanh that LLVM vectorises."""

import numpy as np
from numba import njit
from numpy import float32, int32, uint32

from deep_interest.ops.runtime.jit import kernel
from deep_interest.ops.runtime.parallel import partition_bounds

_EXP = tuple(
    map(float32, (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1))
)
"""Coefficients of ``(exp(x) - 1 - x) / x²`` by descending powers, after the first (Cephes, expf)."""

# Loops touch few arrays each: LLVM then proves at run time that they do not overlap, and vectorises.


@kernel
def prelu_forward(x, slope, y, partition, partitions):
    """PReLU of ``x (N, C)`` with ``slope (C,)``; OUT ``y (N, C)``."""
    first, last = partition_bounds(len(x), partition, partitions)
    for i in range(first, last):
        prelu_row(x[i], slope, y[i])


@kernel
def prelu_backward(x, slope, grad_output, grad_x, grad_slope, partition, partitions):
    """Gradients of `prelu_forward`; OUT ``grad_x (N, C)``, INOUT ``grad_slope (partitions, C)``."""
    first, last = partition_bounds(len(x), partition, partitions)
    for i in range(first, last):
        prelu_row_backward(x[i], slope, grad_output[i], grad_x[i], grad_slope[partition])


@njit(inline="always")
def prelu_row(x, slope, y):
    """PReLU of one row; OUT ``y``."""
    for j in range(len(slope)):
        value = x[j]
        y[j] = value if value > 0 else slope[j] * value


@njit(inline="always")
def prelu_row_backward(x, slope, grad_output, grad_x, grad_slope):
    """Gradients of `prelu_row`; OUT ``grad_x``, INOUT ``grad_slope``."""
    for j in range(len(slope)):
        grad_x[j] = grad_output[j] if x[j] > 0 else grad_output[j] * slope[j]
    for j in range(len(slope)):
        grad_slope[j] += float32(0) if x[j] > 0 else grad_output[j] * x[j]


@njit(inline="always")
def sigmoid(x):
    """``1 / (1 + exp(-x))`` by way of `tanh`."""
    half = float32(0.5)
    return half + half * tanh(half * x)


@njit(inline="always")
def tanh(x):
    """``tanh(x)`` to 4e-7: a rational function of x² fitted on [-8, 8], beyond which float32 rounds tanh to ±1."""
    x = min(max(x, float32(-8)), float32(8))
    s = x * x
    numerator = float32(0.0035716029) + s * (float32(2.1894743e-05) + s * float32(1.5230533e-08))
    numerator = float32(1) + s * (float32(0.13444502) + s * numerator)
    denominator = float32(0.026164461) + s * (float32(0.00034113000) + s * float32(8.5224931e-07))
    denominator = float32(1) + s * (float32(0.46777829) + s * denominator)
    return x * numerator / denominator


@njit(inline="always")
def exp_of_negative(x):
    """``exp(x)`` of ``x <= 0`` to 2e-7 of its value, and 1.6e-38 below -87: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]."""
    x = max(x, float32(-87))
    n = np.floor(x * float32(1.44269504) + float32(0.5))
    rest = (x - n * float32(0.693359375)) + n * float32(
        2.12194440e-4
    )  # ln 2 in two parts, the first exact in products with n
    total = float32(1.9875691500e-4)
    for coefficient in _EXP:
        total = total * rest + coefficient
    total = total * rest * rest + rest + float32(1)
    return total * uint32((int32(n) + int32(127)) << int32(23)).view(float32)


@kernel
def column_moments(x, sums, partition, partitions):
    """Sums of the columns and of their squares, in float64; INOUT ``sums (partitions, 2, C)``."""
    first, last = partition_bounds(len(x), partition, partitions)
    total, squares = sums[partition, 0], sums[partition, 1]
    for i in range(first, last):
        row = x[i]
        for j in range(len(row)):
            total[j] += np.float64(row[j])
        for j in range(len(row)):
            squares[j] += np.float64(row[j]) * np.float64(row[j])


@kernel
def dice_forward(x, alpha, mean, scale, p, y, partition, partitions):
    """Dice with ``p = sigmoid((x - mean) * scale)``.

    Args:
        x: ``(N, C)``.
        alpha: ``(C,)`` slopes.
        mean: ``(C,)``.
        scale: ``(C,)`` inverse standard deviations.
        p: OUT ``(N, C)``, kept for the backward pass.
        y: OUT ``(N, C)``.
    """
    first, last = partition_bounds(len(x), partition, partitions)
    for i in range(first, last):
        row, row_p, out = x[i], p[i], y[i]
        for j in range(len(row)):
            row_p[j] = sigmoid((row[j] - mean[j]) * scale[j])
        for j in range(len(row)):
            out[j] = row[j] * (alpha[j] + row_p[j] * (float32(1) - alpha[j]))


@kernel
def dice_backward_sums(grad_output, x, alpha, mean, p, grad_standardized, sums, partition, partitions):
    """First pass of the backward pass: gradients of the standardised rows and the sums that the second pass needs.

    Args:
        grad_output: ``(N, C)`` gradient of the output.
        x: ``(N, C)`` the input; ``alpha``, ``mean``, ``p`` as in `dice_forward`.
        grad_standardized: OUT ``(N, C)`` gradient of the standardised input.
        sums: INOUT ``(partitions, 3, C)``: gradient of alpha, Σ grad_standardized, Σ grad_standardized ∘ (x - mean).
    """
    first, last = partition_bounds(len(x), partition, partitions)
    grad_alpha, total, products = sums[partition, 0], sums[partition, 1], sums[partition, 2]
    for i in range(first, last):
        row, grad, row_p, out = x[i], grad_output[i], p[i], grad_standardized[i]
        for j in range(len(row)):
            out[j] = grad[j] * row[j] * (float32(1) - row_p[j])
        for j in range(len(row)):
            grad_alpha[j] += out[j]
        for j in range(len(row)):
            out[j] *= row_p[j] * (float32(1) - alpha[j])
        for j in range(len(row)):
            total[j] += out[j]
        for j in range(len(row)):
            products[j] += out[j] * (row[j] - mean[j])


@kernel
def dice_backward(grad_output, inputs, factors, p, grad_x, partition, partitions):
    """Second pass of the backward pass.

    Args:
        grad_output: ``(N, C)`` gradient of the output.
        inputs: ``x (N, C)``, ``alpha (C,)`` and ``mean (C,)``.
        factors: ``(C,)`` each: ``scale``, and the sums of `dice_backward_sums` with their factors.
        p: ``(N, C)`` as `dice_forward` leaves it.
        grad_x: INOUT ``(N, C)``, the gradient of the standardised input and then of the input.
    """
    x, alpha, mean = inputs
    scale, total, products = factors
    first, last = partition_bounds(len(x), partition, partitions)
    for i in range(first, last):
        row, grad, row_p, out = x[i], grad_output[i], p[i], grad_x[i]
        for j in range(len(row)):
            out[j] = scale[j] * out[j] + grad[j] * (alpha[j] + row_p[j] * (float32(1) - alpha[j]))
        for j in range(len(row)):
            out[j] -= total[j] + products[j] * (row[j] - mean[j])
