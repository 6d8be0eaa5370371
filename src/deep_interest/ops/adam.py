"""One step of Adam (Kingma and Ba 2015), in one pass over memory."""

import math

import numpy as np
from numba import njit
from torch import Tensor

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.compiled import arrays, compiled, fits, run, share
from deep_interest.ops.prefetch import AHEAD, fetch
from deep_interest.ops.rows import Touched


def adam(
    values: Tensor, gradient: Tensor, first: Tensor, second: Tensor,
    *, rate: float, betas: tuple[float, float], eps: float, step: int,
) -> None:  # fmt: skip
    """One step on all of a vector, in place.

    Args:
        values, gradient, first, second: ``(n,)`` parameters, their gradient and moments.
        rate, betas, eps: of Adam.
        step: number of the step, from 1.
    """
    root = math.sqrt(1 - betas[1] ** step)
    size = rate * root / (1 - betas[0] ** step)
    if fits(values):
        run(
            _all,
            *arrays(values, gradient, first, second),
            _constants(betas, eps * root, size),
            work=len(values),
        )
        return
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    values.addcdiv_(first, second.sqrt().add_(eps * root), value=-size)


def adam_rows(
    table: Tensor, touched: Touched, first: Tensor, second: Tensor,
    *, rate: float, betas: tuple[float, float], eps: float, step: int,
) -> None:  # fmt: skip
    """One step on some rows of a table and of its moments, in place; the others keep theirs.

    ``eps`` is not corrected for the bias of the second moment, as in ``torch.optim.SparseAdam``.

    Args:
        table, first, second: ``(R, D)`` the parameter and its moments.
        touched: the rows and their gradients.
        rate, betas, eps: of Adam.
        step: the table's steps, this one included.

    Raises:
        InputError: the table does not have one of the rows.
    """
    size = rate * math.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step)
    rows, gradient, real = touched
    if fits(table):
        check_codes(rows.numpy(), len(table), "rows that Adam updates")
        constants = _constants(betas, eps, size)
        given = arrays(table, first, second, rows, gradient)
        run(_rows, *given, constants, work=4 * gradient.numel())  # rows from anywhere, and as many roots
        return
    for moment, value, beta in ((first, gradient, betas[0]), (second, gradient.square(), betas[1])):
        moment.index_add_(0, rows, _counting(value - moment.index_select(0, rows), real), alpha=1 - beta)
    move = first.index_select(0, rows).div_(second.index_select(0, rows).sqrt_().add_(eps))
    table.index_add_(0, rows, _counting(move, real), alpha=-size)


def _counting(values: Tensor, real: Tensor | None) -> Tensor:
    """Values ``(k, D)``, 0 where an entry does not count."""
    return values if real is None else values.mul_(real)


def _constants(betas: tuple[float, float], eps: float, size: float) -> np.ndarray:
    return np.array([1 - betas[0], 1 - betas[1], eps, size], np.float32)


@compiled
def _all(values, gradient, first, second, constants, part, parts):
    begin, end = share(len(values), part, parts)
    _move(values[begin:end], gradient[begin:end], first[begin:end], second[begin:end], constants)


@compiled
def _rows(table, first, second, rows, gradient, constants, part, parts):
    begin, end = share(len(rows), part, parts)
    for i in range(begin, end):
        if i + AHEAD < end:
            soon = rows[i + AHEAD]
            fetch(table, soon)
            fetch(first, soon)
            fetch(second, soon)
        row = rows[i]
        _move(table[row], gradient[i], first[row], second[row], constants)


@njit(inline="always")
def _move(values, gradient, first, second, constants):
    to_first, to_second, eps, size = constants[0], constants[1], constants[2], constants[3]
    for j in range(len(values)):
        first[j] += to_first * (gradient[j] - first[j])
        second[j] += to_second * (gradient[j] * gradient[j] - second[j])
        values[j] -= size * first[j] / (np.sqrt(second[j]) + eps)
