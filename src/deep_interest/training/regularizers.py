"""Penalties on the embedding rows that a mini-batch touches (DIN §5.1 and §6.5), and L2 on all rows."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from deep_interest.logs.schema import Group
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table
from deep_interest.training.parameters import TrainingOptions


class Regularizer:
    """Gradient of the penalty on the rows ``w_j`` of one table, for the ids j of a mini-batch m.

    It is the sum of the enabled terms, where ``α_mj`` is 1 if id j occurs in m and 0 otherwise:

    - ``l2``: ``λ α_mj w_j``, plain L2 on the touched rows, or ``λ w_j`` with ``updated_rows: all``;
    - ``mba``: ``λ (α_mj / n_j) w_j``, mini-batch aware (DIN eq. 6, 7);
    - ``difacto``: ``λ c_mj w_j`` with c_mj occurrences of j in m, so that frequent ids are regularised more strongly.

    Negatives of an auxiliary loss do not count as occurrences. Tables of crossed features have no occurrence counts; they
    only have ``l2``, on all rows with a gradient.

    Args:
        table: embedding table.
        options: coefficients λ.
        occurrences: ``(rows,)`` n_j, number of training samples in which id j occurs; needed for ``mba``.
    """

    def __init__(self, table: Table, options: TrainingOptions, occurrences: Tensor | None) -> None:
        self.table = table
        counted = table.is_counted
        self.per_occurrence = options.difacto if counted else 0.0
        self.per_row, self.on_all_rows = options.l2, options.updated_rows == "all"
        self.inverse = None
        if options.mba and counted:
            assert occurrences is not None
            self.inverse = options.mba / occurrences.clamp(min=1).to(table.weight)
        self.on = bool(self.per_row or self.per_occurrence or self.inverse is not None)
        of_occurrences = bool(self.per_occurrence) or self.inverse is not None
        self.needs_counts = self.on and counted and (of_occurrences or not self.on_all_rows)
        if self.needs_counts:
            self._counts = torch.zeros(len(table.weight), dtype=torch.int32, device=table.weight.device)

    def __call__(self, rows: Tensor | None, batch: Batch) -> Tensor:
        """Return the coefficient of ``w_j`` for some rows, or for all. Shape: ``(k,) -> (k,)``."""
        if rows is None:
            rows = torch.arange(len(self.table.weight), device=self.table.weight.device)
        uniform = self.table.weight.new_tensor(self.per_row).expand(len(rows))
        if not self.needs_counts:
            return uniform
        counts = self._occurrences_in(batch, rows)
        present = (counts > 0).to(self.table.weight)
        strength = uniform if self.on_all_rows else present * self.per_row
        if self.per_occurrence:
            strength = strength + counts * self.per_occurrence
        if self.inverse is not None:
            strength = strength + present * self.inverse[rows]
        return strength

    def _occurrences_in(self, batch: Batch, rows: Tensor) -> Tensor:
        """Return ``c_mj`` of some rows."""
        return self._sums_of(occurrences_in(batch, self.table), rows)

    def _sums_of(self, occurrences: Sequence[tuple[Tensor, Tensor]], rows: Tensor) -> Tensor:
        """Sum pairs of rows and counts by row, and return the sums of some rows; only rows that occur are touched."""
        for codes, times in occurrences:
            self._counts.index_add_(0, codes, times)
        counts = self._counts[rows]
        for codes, _ in occurrences:
            self._counts.index_fill_(0, codes.long(), 0)
        return counts


def occurrences_in(batch: Batch, table: Table) -> list[tuple[Tensor, Tensor]]:
    """Return rows of a table and how often they occur in a batch, once for each feature group; rows may repeat."""
    found = []
    parts: list[tuple[Batch, Group]] = [(batch, group) for group in table.groups]
    parts += [(batch.sequences[name], "behavior") for name in table.sequences]
    for part, group in parts:
        values, value_sets = part.values(group, table.field)
        times = _times(part, group, part.codes(group, table.field))
        found.append((table.rows_of(values), times if value_sets is None else times[value_sets.segments]))
    return found


def _times(batch: Batch, group: Group, rows: Tensor) -> Tensor:
    """Return the number of samples that contain each row of a group, int32: more than one for shared histories."""
    if group != "behavior" or batch.owner is None:
        return torch.ones(len(rows), dtype=torch.int32, device=rows.device)
    return batch.samples_per_history[batch.histories.segments]


def regularizers(
    tables: list[Table], options: TrainingOptions, occurrences: Mapping[str, Tensor] | None
) -> list[Regularizer]:
    """Build the regulariser of each table.

    Args:
        tables: embedding tables of a model.
        options: coefficients λ.
        occurrences: ``{key: n_j}`` by `occurrence_key`; needed for ``mba``.
    """
    counted = occurrences or {}
    return [Regularizer(table, options, counted.get(occurrence_key(table))) for table in tables]


def occurrence_key(table: Table) -> str:
    """Return the key of a table in a mapping of occurrences: its field and the feature groups that use it."""
    return f"{table.field}:{'+'.join((*table.groups, *table.sequences))}"
