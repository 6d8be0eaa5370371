"""Adam and SGD: one vector for all network parameters, row-sparse updates for embedding tables."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deep_interest.ops.adam import adam, adam_rows
from deep_interest.ops.gradients import CoalescedGrad
from deep_interest.ops.runtime.memory import use_huge_pages

TableGrad = CoalescedGrad | Tensor
"""Gradient of some rows of a table, or of all, ``(R, D)``."""


def values_of(gradient: TableGrad) -> Tensor:
    """Return the values of a gradient."""
    return gradient if isinstance(gradient, Tensor) else gradient.gradient


class Flat:
    """Parameters that share one vector, as do their gradients, so that one operation updates all of them.

    Args:
        parameters: parameters with the same device and dtype; they and their gradients become views of the vectors.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        first = parameters[0] if parameters else torch.zeros(0)
        self._parameters, self._sizes = parameters, [parameter.numel() for parameter in parameters]
        self.values = first.new_empty(sum(self._sizes)).detach()
        for parameter, value in zip(parameters, self.values.split(self._sizes), strict=True):
            value.copy_(parameter.detach().reshape(-1))
            parameter.data = value.view_as(parameter)
        self.use_gradient(torch.zeros_like(self.values))

    def use_gradient(self, gradient: Tensor) -> None:
        """Let the gradients of all parameters be views of a vector ``(P,)``."""
        self.gradient = gradient
        for parameter, part in zip(self._parameters, gradient.split(self._sizes), strict=True):
            parameter.grad = part.view_as(parameter)


class Adam:
    """Adam (Kingma and Ba 2015), in its lazy form for tables: the moments of a row only change when the row is touched.

    Equivalent to ``torch.optim.Adam`` and ``torch.optim.SparseAdam``; the bias correction counts the steps of each table.

    Args:
        network: dense parameters.
        tables: ``(R, D)`` parameters.
        betas: decay rates of the two moments.
        eps: added to the denominator.
    """

    def __init__(
        self,
        network: Flat,
        tables: Sequence[Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.network, self.tables, self.betas, self.eps = network, tables, betas, eps
        self.steps = [0] * (1 + len(tables))  # of the network and of each table
        self.moments = [
            (use_huge_pages(torch.zeros_like(values)), use_huge_pages(torch.zeros_like(values)))
            for values in (network.values, *(table.detach() for table in tables))
        ]

    def step(self, rate: float, gradients: Sequence[TableGrad | None]) -> None:
        """Update the network and rows of each table.

        Args:
            rate: learning rate.
            gradients: of the tables; None for one that was not touched.
        """
        betas, eps = self.betas, self.eps
        self.steps[0] += 1
        adam(
            self.network.values, self.network.gradient, *self.moments[0],
            learning_rate=rate, betas=betas, eps=eps, step=self.steps[0],
        )  # fmt: skip
        for number, (table, gradient) in enumerate(zip(self.tables, gradients, strict=True), start=1):
            if gradient is None:
                continue
            self.steps[number] += 1
            moments, step = self.moments[number], self.steps[number]
            if isinstance(gradient, Tensor):
                adam(
                    *(each.view(-1) for each in (table.detach(), gradient, *moments)),
                    learning_rate=rate, betas=betas, eps=eps, step=step,
                )  # fmt: skip
            else:
                adam_rows(table, gradient, *moments, learning_rate=rate, betas=betas, eps=eps, step=step)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": list(self.steps), "moments": self.moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = list(state["steps"])
        for ours, saved in zip(self.moments, state["moments"], strict=True):
            for moment, value in zip(ours, saved, strict=True):
                moment.copy_(value)


class SGD:
    """Stochastic gradient descent.

    Args:
        network, tables: see `Adam`.
    """

    def __init__(self, network: Flat, tables: Sequence[Tensor]) -> None:
        self.network, self.tables = network, tables

    def step(self, rate: float, gradients: Sequence[TableGrad | None]) -> None:
        """Update the network and rows of each table, see `Adam.step`."""
        self.network.values.add_(self.network.gradient, alpha=-rate)
        for table, gradient in zip(self.tables, gradients, strict=True):
            if isinstance(gradient, Tensor):
                table.sub_(gradient, alpha=rate)
            elif gradient is not None:
                table.index_add_(0, gradient.rows, gradient.gradient, alpha=-rate)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """SGD has no state."""


def clip(gradients: Sequence[Tensor], limit: float) -> None:
    """Scale all gradients so that their global norm is at most ``limit``."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    scale = (limit / (norm + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
