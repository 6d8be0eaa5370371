"""Optimisers: a dense one for the network, a row-sparse one for the embedding tables, driven as one."""

import torch
from torch import Tensor, nn

from deep_interest.models.layers import embedding_tables
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.row_adam import RowAdam


class Optimizer:
    """Steps the network's parameters and the rows of the tables that a batch touched.

    A step's cost depends on the rows touched, never on the tables' sizes. Adam on the tables is the lazy form: the
    moments of a row move when the row is touched.

    Args:
        model: the model.
        options: optimiser, learning rate, clipping, L2.
    """

    def __init__(self, model: nn.Module, options: TrainingOptions) -> None:
        self.tables = embedding_tables(model)
        sparse = {id(table) for table in self.tables}
        self.dense = [parameter for parameter in model.parameters() if id(parameter) not in sparse]
        self.options = options
        if options.optimizer == "sgd":
            parts = [torch.optim.SGD([*self.dense, *self.tables], lr=options.learning_rate)]
        else:
            parts = [torch.optim.Adam(self.dense, lr=options.learning_rate, fused=True)] if self.dense else []
            parts += [RowAdam(self.tables, lr=options.learning_rate)] if self.tables else []
        self.parts = parts

    def step(self) -> None:
        """Regularise and clip the gradients, then apply and clear them."""
        with torch.no_grad():
            for table in self.tables:
                if table.grad is not None:
                    table.grad = self._regularized(table)
            if self.options.gradient_norm is not None:
                self._clip(self.options.gradient_norm)
        for part in self.parts:
            part.step()
            part.zero_grad(set_to_none=True)

    def set_learning_rate(self, learning_rate: float) -> None:
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate

    def _regularized(self, table: nn.Parameter) -> Tensor:
        """The gradient with one entry a touched row, the L2 penalty's part added."""
        gradient = table.grad.coalesce()
        if self.options.l2:
            rows = gradient.indices()[0]
            gradient.values().add_(table[rows], alpha=self.options.l2)
        return gradient

    def _clip(self, limit: float) -> None:
        """Scale all gradients so that their common norm is at most ``limit``."""
        gradients = [p.grad for p in self.dense if p.grad is not None]
        gradients += [table.grad.values() for table in self.tables if table.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
        scale = (limit / (norm + 1e-12)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)

    def state_dict(self) -> list[dict]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)
