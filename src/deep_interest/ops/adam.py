"""One step of Adam (Kingma and Ba 2015), in one pass over memory."""

import math

import numpy as np
from torch import Tensor

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.gradients import CoalescedGrad
from deep_interest.ops.kernels.adam import update_all, update_rows
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.parallel import run_kernel


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
    if can_use_compiled(values):
        run_kernel(
            update_all,
            *as_arrays(values, gradient, first, second),
            _constants(betas, eps * root, size),
            work=len(values),
        )
        return
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    values.addcdiv_(first, second.sqrt().add_(eps * root), value=-size)


def adam_rows(
    table: Tensor, touched: CoalescedGrad, first: Tensor, second: Tensor,
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
    if table.is_cpu:
        check_codes(rows.numpy(), len(table), "rows that Adam updates")
    if can_use_compiled(table):
        constants = _constants(betas, eps, size)
        given = as_arrays(table, first, second, rows, gradient)
        run_kernel(
            update_rows, *given, constants, work=4 * gradient.numel()
        )  # rows from anywhere, and as many roots
        return
    for moment, value, beta in ((first, gradient, betas[0]), (second, gradient.square(), betas[1])):
        moment.index_add_(0, rows, _mask_padding(value - moment.index_select(0, rows), real), alpha=1 - beta)
    move = first.index_select(0, rows).div_(second.index_select(0, rows).sqrt_().add_(eps))
    table.index_add_(0, rows, _mask_padding(move, real), alpha=-size)


def _mask_padding(values: Tensor, real: Tensor | None) -> Tensor:
    """Values ``(k, D)``, 0 where an entry does not count."""
    return values if real is None else values.mul_(real)


def _constants(betas: tuple[float, float], eps: float, size: float) -> np.ndarray:
    return np.array([1 - betas[0], 1 - betas[1], eps, size], np.float32)
