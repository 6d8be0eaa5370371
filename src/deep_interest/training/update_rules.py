"""Adam and SGD: the network's parameters as one vector, the tables by the rows that a batch touched."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from deep_interest.ops.adam import adam, adam_rows
from deep_interest.ops.gradients import CoalescedGrad
from deep_interest.ops.runtime.memory import use_huge_pages


class Flat:
    """Parameters that share one vector, and their gradients another, so that one operation moves them all.

    Args:
        parameters: of one device and dtype; they become views of the vector, and so do their gradients.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        first = parameters[0] if parameters else torch.zeros(0)
        sizes = [parameter.numel() for parameter in parameters]
        self.values = first.new_empty(sum(sizes)).detach()
        self.gradient = torch.zeros_like(self.values)
        pairs = zip(self.values.split(sizes), self.gradient.split(sizes), strict=True)
        for parameter, (value, gradient) in zip(parameters, pairs, strict=True):
            value.copy_(parameter.detach().reshape(-1))
            parameter.data = value.view_as(parameter)
            parameter.grad = gradient.view_as(parameter)


class Adam:
    """Adam (Kingma and Ba 2015); on the tables its lazy form: a row's moments move when the row is touched.

    As ``torch.optim.Adam`` and ``torch.optim.SparseAdam``, whose bias correction counts a table's own steps.

    Args:
        network: the dense parameters.
        tables: ``(R, D)`` parameters.
        betas: decay of the two moments.
        eps: added to the denominator.
    """

    def __init__(
        self,
        network: Flat,
        tables: Sequence[nn.Parameter],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.network, self.tables, self.betas, self.eps = network, tables, betas, eps
        self.steps = [0] * (1 + len(tables))  # the network's, and each table's
        self.moments = [
            (use_huge_pages(torch.zeros_like(values)), use_huge_pages(torch.zeros_like(values)))
            for values in (network.values, *(table.detach() for table in tables))
        ]

    def step(self, rate: float, touched: Sequence[CoalescedGrad | None]) -> None:
        """Move the network, and the touched rows of every table, None where there are none."""
        common = {"rate": rate, "betas": self.betas, "eps": self.eps}
        self.steps[0] += 1
        adam(self.network.values, self.network.gradient, *self.moments[0], **common, step=self.steps[0])
        for number, (table, found) in enumerate(zip(self.tables, touched, strict=True), start=1):
            if found is not None:
                self.steps[number] += 1
                adam_rows(table, found, *self.moments[number], **common, step=self.steps[number])

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
        network, tables: as of `Adam`.
    """

    def __init__(self, network: Flat, tables: Sequence[nn.Parameter]) -> None:
        self.network, self.tables = network, tables

    def step(self, rate: float, touched: Sequence[CoalescedGrad | None]) -> None:
        """Move the network, and the touched rows of every table, None where there are none."""
        self.network.values.add_(self.network.gradient, alpha=-rate)
        for table, found in zip(self.tables, touched, strict=True):
            if found is not None:
                table.index_add_(0, found.rows, found.gradient, alpha=-rate)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is nothing to remember."""


def clip(gradients: Sequence[Tensor], limit: float) -> None:
    """Scale all gradients so that their common norm is at most ``limit``."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    scale = (limit / (norm + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
