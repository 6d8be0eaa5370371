"""The optimiser on several ranks: the network's gradients are summed, each row is updated by its owner."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from deep_interest.distributed import group
from deep_interest.distributed.exchange import RowExchange, ShardedTable
from deep_interest.models.batch import Batch
from deep_interest.models.embeddings import Table
from deep_interest.training.optimizers import Optimizer
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer, occurrence_key, occurrences_in
from deep_interest.training.unknown import TableRows, UnknownRows, sum_of_rows


class ShardedOptimizer(Optimizer):
    """Update the replicated network with the gradients of all ranks, and own rows with what their ranks have sent.

    Args:
        model: model whose tables are sharded.
        options: as in `Optimizer`.
        occurrences: n_j of own rows.
        exchange: carries the rows of the model.

    Attributes:
        sums: ``(3,)`` further numbers that `step` replaces by their sums over all ranks, together with the gradients.
    """

    def __init__(
        self, model: nn.Module, options: TrainingOptions, *, occurrences: Mapping[str, Tensor] | None, exchange: RowExchange
    ) -> None:  # fmt: skip
        self.exchange = exchange
        super().__init__(model, options, occurrences=occurrences)
        size = len(self.network.gradient)
        self._summed = torch.zeros(size + 3)
        self.network.use_gradient(self._summed[:size])
        self.sums = self._summed[size:]

    def _make_regularizers(
        self, tables: list[Table], options: TrainingOptions, occurrences: Mapping[str, Tensor] | None
    ) -> Sequence[Regularizer]:
        counted = occurrences or {}
        return [
            ShardedRegularizer(table, options, counted.get(occurrence_key(table)), exchange=self.exchange)
            for table in tables
        ]

    @property
    def counts_occurrences(self) -> bool:
        """Whether a penalty needs the occurrences of rows in the batches of all ranks."""
        return any(regularizer.needs_counts for regularizer in self.regularizers)

    @torch.no_grad()
    def step(self, batch: Batch) -> None:
        """Sum the gradients of the network over all ranks; then update as `Optimizer` does."""
        group.sum_over_ranks(self._summed)
        super().step(batch)

    def _clip(self, of_tables: list[Tensor], limit: float) -> None:
        """Scale all gradients so that their global norm, over the rows of all ranks, is at most ``limit``."""
        own = [torch.linalg.vector_norm(gradient).double().square() for gradient in of_tables]
        squares = group.sum_over_ranks(
            torch.stack(own).sum() if own else torch.zeros((), dtype=torch.float64)
        )
        norm = (squares + torch.linalg.vector_norm(self.network.gradient).double().square()).sqrt()
        scale = (limit / (norm + 1e-12)).clamp(max=1.0).float()
        for gradient in (self.network.gradient, *of_tables):
            gradient.mul_(scale)


class ShardedRegularizer(Regularizer):
    """The penalty on own rows; their occurrences are those in the batches of all ranks.

    Args:
        table: table with the rows of this rank.
        options: coefficients.
        occurrences: n_j of own rows.
        exchange: receives the occurrences.
    """

    def __init__(
        self, table: Table, options: TrainingOptions, occurrences: Tensor | None, *, exchange: RowExchange
    ) -> None:
        super().__init__(table, options, occurrences)
        self.exchange = exchange

    def _occurrences_in(self, batch: Batch, rows: Tensor) -> Tensor:
        assert isinstance(self.table.source, ShardedTable)
        received = self.exchange.received.get(self.table.source.name, [])
        return self._sums_of([(each.rows, each.counts.int()) for each in received], rows)


class BatchCounter:
    """Counts the occurrences of distinct codes in the batch of this rank, each code once in a step.

    Args:
        batch: batch of this rank.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._occurrences: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self._sent: dict[str, list[Tensor]] = {}

    def __call__(self, table: ShardedTable, codes: Tensor) -> Tensor:
        """Return ``(k,)`` int32 occurrences of codes in ascending order; 0 for those that an earlier call has counted."""
        counts = torch.zeros(len(codes), dtype=torch.int32)
        if not table.table.is_counted or not len(codes):
            return counts
        if table.name not in self._occurrences:
            self._occurrences[table.name] = occurrences_in(self.batch, table.table)
        for rows, times in self._occurrences[table.name]:
            place = torch.searchsorted(codes, rows.to(codes.dtype)).clamp(max=len(codes) - 1)
            counts.index_add_(0, place, times * (codes[place] == rows))
        for earlier in self._sent.get(table.name, []):
            counts.masked_fill_(torch.isin(codes, earlier), 0)
        self._sent.setdefault(table.name, []).append(codes)
        return counts


class ShardedUnknownRows(UnknownRows):
    """Set own untrained rows to the mean of the trained rows of all ranks.

    Args:
        whole: the rows of whole tables.
    """

    def __init__(self, whole: UnknownRows) -> None:
        self.tables = []
        for of in whole.tables:
            assert isinstance(of.table.source, ShardedTable)
            shard = of.table.source.shard
            own = (of.untrained >= shard.begin) & (of.untrained < shard.end)
            self.tables.append(
                TableRows(
                    of.table, of.trained[shard.begin : shard.end].clone(), of.untrained[own] - shard.begin
                )
            )

    def _mean(self, table: Tensor, chosen: Tensor) -> Tensor:
        total = torch.cat([sum_of_rows(table, chosen), chosen.sum().double().unsqueeze(0)])
        group.sum_over_ranks(total)
        return (total[:-1] / total[-1]).to(table.dtype)
