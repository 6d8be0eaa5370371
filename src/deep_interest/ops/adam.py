"""One step of Adam (Kingma and Ba 2015) in one pass over memory."""

import math

import numpy as np
from torch import Tensor

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.gradients import CoalescedGrad
from deep_interest.ops.kernels.adam import update_all, update_rows
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.parallel import run_kernel


def adam(
    parameters: Tensor, gradient: Tensor, first_moment: Tensor, second_moment: Tensor,
    *, learning_rate: float, betas: tuple[float, float], eps: float, step: int,
) -> None:  # fmt: skip
    """Update a vector and its moments in place.

    Args:
        parameters: ``(n,)``.
        gradient: ``(n,)``.
        first_moment: ``(n,)`` moving average of the gradient.
        second_moment: ``(n,)`` moving average of the squared gradient.
        learning_rate: step size before bias correction.
        betas: decay rates of the moments.
        eps: value added to the denominator.
        step: number of this step, from 1.
    """
    correction = math.sqrt(1 - betas[1] ** step)
    step_size = learning_rate * correction / (1 - betas[0] ** step)
    if can_use_compiled(parameters):
        arrays = as_arrays(parameters, gradient, first_moment, second_moment)
        constants = _constants(betas, eps * correction, step_size)
        run_kernel(update_all, *arrays, constants, work=len(parameters))
        return
    first_moment.lerp_(gradient, 1 - betas[0])
    second_moment.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    parameters.addcdiv_(first_moment, second_moment.sqrt().add_(eps * correction), value=-step_size)


def adam_rows(
    table: Tensor, gradient: CoalescedGrad, first_moment: Tensor, second_moment: Tensor,
    *, learning_rate: float, betas: tuple[float, float], eps: float, step: int,
) -> None:  # fmt: skip
    """Update some rows of a table and of its moments in place; other rows and their moments stay unchanged.

    ``eps`` is not corrected for the bias of the second moment, as in `torch.optim.SparseAdam`.

    Args:
        table: ``(R, D)`` the parameter.
        gradient: row indices and their gradients.
        first_moment, second_moment: ``(R, D)``.
        learning_rate, betas, eps: as in `adam`.
        step: number of this step of the table, from 1.

    Raises:
        InputError: a row index is outside the table.
    """
    step_size = learning_rate * math.sqrt(1 - betas[1] ** step) / (1 - betas[0] ** step)
    rows, values, mask = gradient
    if table.is_cpu:
        check_codes(rows.numpy(), len(table), "rows that Adam updates")
    if can_use_compiled(table):
        arrays = as_arrays(table, first_moment, second_moment, rows, values)
        work = 4 * values.numel()  # random rows, and as many square roots
        run_kernel(update_rows, *arrays, _constants(betas, eps, step_size), work=work)
        return
    for moment, value, beta in ((first_moment, values, betas[0]), (second_moment, values.square(), betas[1])):
        moment.index_add_(0, rows, _masked(value - moment.index_select(0, rows), mask), alpha=1 - beta)
    update = first_moment.index_select(0, rows).div_(second_moment.index_select(0, rows).sqrt_().add_(eps))
    table.index_add_(0, rows, _masked(update, mask), alpha=-step_size)


def _masked(values: Tensor, mask: Tensor | None) -> Tensor:
    """Set the padding entries of ``values (k, D)`` to 0."""
    return values if mask is None else values.mul_(mask)


def _constants(betas: tuple[float, float], eps: float, step_size: float) -> np.ndarray:
    return np.array([1 - betas[0], 1 - betas[1], eps, step_size], np.float32)
