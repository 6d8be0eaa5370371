"""Optimisers: a dense one for the network, a row-sparse one for the embedding tables, driven as one."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from deep_interest.models.batch import Batch
from deep_interest.models.layers import embedding_tables
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer, regularizers
from deep_interest.training.row_adam import RowAdam


class Optimizer:
    """Steps the network's parameters and the rows of the tables that a batch touched.

    A step's cost depends on the rows touched, never on the tables' sizes. Adam on the tables is the lazy form: the
    moments of a row move when the row is touched.

    A penalty on the tables joins the gradient (coupled: clipped with it, and rescaled by Adam's moments), or, with
    ``decoupled``, is subtracted from the rows beside the step, as in DIN eq. 7 to the letter and in AdamW (Loshchilov
    and Hutter 2019). For SGD without clipping both are one.

    Args:
        model: the model.
        options: optimiser, learning rate, clipping, penalties.
        occurrences: n_j of the tables, for the ``mba`` penalty (`regularizers.occurrence_key`).
    """

    def __init__(
        self, model: nn.Module, options: TrainingOptions, *, occurrences: Mapping[str, Tensor] | None = None
    ) -> None:
        tables = embedding_tables(model)
        self.regularizers = regularizers(tables, options, occurrences)
        self.tables = [table.weight for table in tables]
        sparse = {id(table) for table in self.tables}
        self.dense = [parameter for parameter in model.parameters() if id(parameter) not in sparse]
        self.options = options
        self.learning_rate = options.learning_rate
        if options.optimizer == "sgd":
            parts = [torch.optim.SGD([*self.dense, *self.tables], lr=options.learning_rate)]
        else:
            parts = [torch.optim.Adam(self.dense, lr=options.learning_rate, fused=True)] if self.dense else []
            parts += [RowAdam(self.tables, lr=options.learning_rate)] if self.tables else []
        self.parts = parts

    def step(self, batch: Batch) -> None:
        """Regularise and clip the gradients of ``batch``, then apply and clear them."""
        with torch.no_grad():
            for table, regularizer in zip(self.tables, self.regularizers, strict=True):
                if table.grad is not None:
                    table.grad = table.grad.coalesce()  # one entry a touched row
                    if regularizer.on:
                        self._penalize(table, regularizer, batch)
            if self.options.gradient_norm is not None:
                self._clip(self.options.gradient_norm)
        for part in self.parts:
            part.step()
            part.zero_grad(set_to_none=True)

    def set_learning_rate(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate

    def _penalize(self, table: nn.Parameter, regularizer: Regularizer, batch: Batch) -> None:
        rows, gradient = table.grad.indices()[0], table.grad.values()
        penalty = table.index_select(0, rows).mul_(regularizer(rows, batch).unsqueeze(1))
        if self.options.decoupled:
            table.index_add_(0, rows, penalty, alpha=-self.learning_rate)
        else:
            gradient.add_(penalty)

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
