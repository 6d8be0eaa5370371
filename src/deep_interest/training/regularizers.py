"""Penalties on the embedding rows that a mini-batch touches (DIN §5.1 and §6.5)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from deep_interest.logs.schema import Group
from deep_interest.models.batch import Batch
from deep_interest.models.layers import Table
from deep_interest.training.parameters import TrainingOptions


class Regularizer:
    """The penalty's gradient of the rows ``w_j`` of one table, for the ids j of a mini-batch m.

    The sum of what the options switch on, with ``α_mj`` = 1 if id j occurs in m and else 0:

    - ``l2``: ``λ α_mj w_j``, plain L2 on the touched rows;
    - ``mba``: ``λ (α_mj / n_j) w_j``, mini-batch aware (DIN eq. 6, 7);
    - ``difacto``: ``λ c_mj w_j`` with the c_mj occurrences of j in m, so that frequent ids are regularised more.

    Items drawn for an auxiliary loss are no occurrences. A table of crossed features, whose ids the log does not
    count, has ``l2`` only, on all rows that have a gradient.

    Args:
        table: the embedding table.
        options: the coefficients λ.
        occurrences: ``(rows,)`` n_j, the training samples in which id j occurs; needed for ``mba``.
    """

    def __init__(self, table: Table, options: TrainingOptions, occurrences: Tensor | None) -> None:
        self.table, self.options = table, options
        counted = bool(table.groups)
        self.per_occurrence = options.difacto if counted else 0.0
        self.per_row = options.l2
        self.inverse = None
        if options.mba and counted:
            assert occurrences is not None
            self.inverse = options.mba / occurrences.clamp(min=1).to(table.weight)
        self.on = bool(self.per_row or self.per_occurrence or self.inverse is not None)
        if self.on and counted:
            self._counts = torch.zeros(table.num_embeddings, dtype=torch.int32, device=table.weight.device)

    def __call__(self, rows: Tensor, batch: Batch) -> Tensor:
        """The coefficient of ``w_j`` for some rows. Shape: ``(k,) -> (k,)``."""
        if not self.table.groups:
            return self.table.weight.new_full((len(rows),), self.per_row)
        counts = self._occurrences_in(batch, rows)
        present = (counts > 0).to(self.table.weight)
        strength = present * self.per_row
        if self.per_occurrence:
            strength = strength + counts * self.per_occurrence
        if self.inverse is not None:
            strength = strength + present * self.inverse[rows]
        return strength

    def _occurrences_in(self, batch: Batch, rows: Tensor) -> Tensor:
        """``c_mj`` of some rows; touches those rows of the counter only."""
        looked_up = []
        for group in self.table.groups:
            values, value_sets = batch.values(group, self.table.field)
            codes = self.table.rows_of(values)
            times = _times(batch, group, batch.codes(group, self.table.field))
            self._counts.index_add_(0, codes, times if value_sets is None else times[value_sets.segments])
            looked_up.append(codes)
        found = self._counts[rows]
        self._counts.index_fill_(0, torch.cat(looked_up).long(), 0)
        return found


def _times(batch: Batch, group: Group, rows: Tensor) -> Tensor:
    """In how many samples each of a group's ``rows`` stands: a shared history's behaviours stand in several. int32."""
    if group != "behavior" or batch.owner is None:
        return torch.ones(len(rows), dtype=torch.int32, device=rows.device)
    return batch.samples_per_history[batch.histories.segments]


def regularizers(
    tables: list[Table], options: TrainingOptions, occurrences: Mapping[str, Tensor] | None
) -> list[Regularizer]:
    """One for each table.

    Args:
        tables: the model's embedding tables.
        options: the coefficients.
        occurrences: ``{key: n_j}`` by `occurrence_key`; needed for ``mba``.
    """
    counted = occurrences or {}
    return [Regularizer(table, options, counted.get(occurrence_key(table))) for table in tables]


def occurrence_key(table: Table) -> str:
    """What a table's occurrences are called: its field and the groups that look it up."""
    return f"{table.field}:{'+'.join(table.groups)}"
