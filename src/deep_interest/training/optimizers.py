"""The optimiser of a model: dense updates of the network, row-sparse updates of the embedding tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.runtime.memory import use_huge_pages
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer, regularizers
from deep_interest.training.update_rules import SGD, Adam, Flat, TableGrad, clip, values_of


class Optimizer:
    """Update the parameters of the network and the rows of the tables that a batch touched.

    The cost of a step depends on the touched rows, not on the sizes of the tables. Adam on the tables is the lazy form: the
    moments of a row only change when the row is touched. With ``updated_rows: all`` a step updates every row, with a gradient of 0
    if the batch does not touch it, as ``torch.optim.Adam`` does with a dense gradient; its cost then depends on the sizes of the tables.

    A penalty on the tables is added to the gradient (coupled: clipped with it, and rescaled by Adam's moments), or, with
    ``decoupled``, subtracted from the rows separately, as in DIN eq. 7 and AdamW (Loshchilov and Hutter 2019). For SGD
    without clipping both are equivalent.

    Args:
        model: model to optimise.
        options: optimiser, learning rate, clipping, penalties.
        occurrences: n_j of the tables, for the ``mba`` penalty (`regularizers.occurrence_key`).
    """

    def __init__(
        self, model: nn.Module, options: TrainingOptions, *, occurrences: Mapping[str, Tensor] | None = None
    ) -> None:
        tables = embedding_tables(model)
        self.regularizers = self._make_regularizers(tables, options, occurrences)
        self.tables = [use_huge_pages(table.weight) for table in tables]
        sparse = {id(table) for table in self.tables}
        self.network = Flat([parameter for parameter in model.parameters() if id(parameter) not in sparse])
        self.rule = (Adam if options.optimizer == "adam" else SGD)(self.network, self.tables)
        self.options = options
        self.learning_rate = options.learning_rate
        self.accumulator = GradientAccumulator(self.tables)
        self._dense = (
            [torch.zeros_like(table) for table in self.tables] if options.updated_rows == "all" else None
        )
        # attributes of the modules: at every step, `nn.Module.__setattr__` would cost as much as a small kernel
        self._accumulating = [
            vars(module) for module in model.modules() if hasattr(type(module), "accumulator")
        ]

    def _make_regularizers(
        self, tables: list[Table], options: TrainingOptions, occurrences: Mapping[str, Tensor] | None
    ) -> Sequence[Regularizer]:
        return regularizers(tables, options, occurrences)

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Let the operations of the model add their gradients to the accumulator while the context is open.

        An exception, as of an interrupted step, discards the gradients: the next step begins without any.
        """
        for attributes in self._accumulating:
            attributes["accumulator"] = self.accumulator
        try:
            yield
        except BaseException:
            self.accumulator.clear()
            self.network.gradient.zero_()
            raise
        finally:
            for attributes in self._accumulating:
                del attributes["accumulator"]  # the class has None

    @torch.no_grad()
    def step(self, batch: Batch) -> None:
        """Regularise and clip the gradients of ``batch``, apply them, and set them to zero."""
        gradients: Sequence[TableGrad | None] = self._table_gradients()
        for table, gradient, regularizer in zip(self.tables, gradients, self.regularizers, strict=True):
            if gradient is not None and regularizer.on:
                self._penalize(table, gradient, regularizer, batch)
        if self.options.gradient_norm is not None:
            self._clip(
                [values_of(each) for each in gradients if each is not None], self.options.gradient_norm
            )
        self.rule.step(self.learning_rate, gradients)
        self.network.gradient.zero_()

    def _table_gradients(self) -> Sequence[TableGrad | None]:
        """Return the gradient of each table: of the touched rows, or of all."""
        touched = self.accumulator.coalesce()
        if self._dense is None:
            return touched
        for dense, found in zip(self._dense, touched, strict=True):
            dense.zero_()
            if found is not None:
                dense.index_add_(0, found.rows, found.gradient)
        return self._dense

    def _clip(self, of_tables: list[Tensor], limit: float) -> None:
        clip([self.network.gradient, *of_tables], limit)

    def _penalize(self, table: Tensor, gradient: TableGrad, regularizer: Regularizer, batch: Batch) -> None:
        if isinstance(gradient, Tensor):
            strength = regularizer(None, batch).unsqueeze(1)
            if self.options.decoupled:
                table.sub_(table * strength, alpha=self.learning_rate)
            else:
                gradient.addcmul_(table, strength)
            return
        rows, values, mask = gradient
        penalty = table.index_select(0, rows).mul_(regularizer(rows, batch).unsqueeze(1))
        if mask is not None:
            penalty.mul_(mask)
        if self.options.decoupled:
            table.index_add_(0, rows, penalty, alpha=-self.learning_rate)
        else:
            values.add_(penalty)

    def state_dict(self) -> dict[str, Any]:
        return self.rule.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rule.load_state_dict(state)
