"""Adam on embedding tables that reads and writes only the rows a batch touched."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class RowAdam(torch.optim.Optimizer):
    """Lazy Adam: as ``torch.optim.SparseAdam``, in place on the touched rows.

    A row's moments move when the row is touched; the bias correction counts the table's steps.

    Args:
        tables: parameters ``(rows, dim)`` with sparse gradients.
        lr: learning rate.
        betas: decay of the two moments.
        eps: added to the denominator.
    """

    def __init__(
        self,
        tables: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(tables, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self) -> None:
        """Update the rows of every table that has a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    gradient = table.grad.coalesce()
                    self._update(table, gradient.indices()[0], gradient.values(), group)

    def _update(self, table: Tensor, rows: Tensor, gradient: Tensor, group: dict) -> None:
        state = self.state[table]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        state["step"] += 1
        first_decay, second_decay = group["betas"]
        first = state["exp_avg"].index_select(0, rows).lerp_(gradient, 1 - first_decay)
        state["exp_avg"].index_copy_(0, rows, first)
        second = (
            state["exp_avg_sq"]
            .index_select(0, rows)
            .mul_(second_decay)
            .addcmul_(gradient, gradient, value=1 - second_decay)
        )
        state["exp_avg_sq"].index_copy_(0, rows, second)
        first_correction, second_correction = (
            1 - first_decay ** state["step"],
            1 - second_decay ** state["step"],
        )
        size = group["lr"] * math.sqrt(second_correction) / first_correction
        table.index_add_(0, rows, first.div_(second.sqrt_().add_(group["eps"])), alpha=-size)
