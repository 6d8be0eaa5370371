"""Rows of sharded tables for the codes of a batch, and back: the gradients of these rows for the ranks that own them.

::

    codes of a batch ─ distinct ─► KJTAllToAll ─► rows of the owner ─► SequenceEmbeddingsAllToAll ─► (k, D) ─► (n, D)
                                                  ▲ accumulator ◄──────── gradients ◄──────────────── sums ◄──

TorchRec's row-wise input and output distributions do the communication, in both directions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.distributed import group
from deep_interest.distributed.shards import own_shard
from deep_interest.distributed.torchrec_parts import import_torchrec
from deep_interest.models.embeddings import Table
from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import GradientAccumulator, SparseGrad, dense_sums
from deep_interest.ops.row_source import RowSource


class Counted(NamedTuple):
    """Occurrences of some own rows in the batches of all ranks.

    Attributes:
        rows: ``(n,)`` indices of own rows, which may repeat.
        counts: ``(n,)`` occurrences.
    """

    rows: Tensor
    counts: Tensor


class ShardedTable(RowSource):
    """A table of which each rank owns a block of rows: ``table.weight``.

    Args:
        name: name of the table in the model.
        table: the table, with the rows of this rank.
        exchange: carries rows between the ranks.
    """

    def __init__(self, name: str, table: Table, exchange: "RowExchange") -> None:
        self.name, self.table, self.exchange = name, table, exchange
        self.shape = torch.Size((table.num_embeddings, table.embedding_dim))
        self.shard = own_shard(table.num_embeddings)

    @property
    def nbytes(self) -> int:
        return self.table.weight.nbytes

    def look_up(
        self,
        tables: Sequence[RowSource],
        groups: Sequence[Mapping[int, Tensor]],
        accumulator: GradientAccumulator | None,
    ) -> list[Tensor]:
        sharded = [table for table in tables if isinstance(table, ShardedTable)]
        return self.exchange.look_up(sharded, groups, accumulator)


class RowExchange:
    """Carries rows of sharded tables to the ranks that need them, and their gradients to the ranks that own them.

    All ranks have to look up the same tables in the same order. A lookup sends each distinct code once.

    Attributes:
        counter: returns the occurrences of distinct codes ``(k,)`` of a table in the batch of this rank; None if no penalty needs them.
        received: occurrences that this and the other ranks have counted since `begin_step`, by table.
        bytes_sent: bytes that this rank has sent to others, codes, rows and gradients.
    """

    def __init__(self) -> None:
        self.counter: Callable[[ShardedTable, Tensor], Tensor] | None = None
        self.received: dict[str, list[Counted]] = {}
        self.bytes_sent = 0
        self._distributions: dict[tuple[str, ...], tuple[Any, Any]] = {}

    def begin_step(self, counter: Callable[[ShardedTable, Tensor], Tensor] | None) -> None:
        """Forget the occurrences of the last step, and count those of the next one."""
        self.counter, self.received = counter, {}

    def look_up(
        self, tables: Sequence[ShardedTable], groups: Sequence[Mapping[int, Tensor]], accumulator: GradientAccumulator | None
    ) -> list[Tensor]:  # fmt: skip
        """Look up rows of several tables for several groups of codes; see `ops.embedding.lookup`."""
        codes: dict[int, list[Tensor]] = {}
        for fields in groups:
            for field, values in fields.items():
                codes.setdefault(field, []).append(values)
        distinct, positions = {}, {}
        for field, parts in codes.items():
            distinct[field], inverse = torch.unique(torch.cat(parts).int(), return_inverse=True)
            positions[field] = iter(inverse.int().split([len(part) for part in parts]))
        rows: dict[int, Tensor] = {}
        for fields_of_width in _by_width(tables, distinct):
            chosen = [distinct[field] for field in fields_of_width]
            fetched = self._fetch([tables[field] for field in fields_of_width], chosen, accumulator)
            rows |= dict(zip(fields_of_width, fetched.split([len(part) for part in chosen]), strict=True))
        index = {field: place for place, field in enumerate(rows)}
        gathered = [{index[field]: next(positions[field]) for field in fields} for fields in groups]
        return list(_Gather.apply(gathered, *rows.values()))

    def _fetch(
        self, tables: Sequence[ShardedTable], codes: Sequence[Tensor], accumulator: GradientAccumulator | None
    ) -> Tensor:
        """Return the rows of distinct codes of tables of one width, concatenated ``(Σ k, D)``."""
        input_distribution, output_distribution = self._distribution(tables)
        torchrec = import_torchrec()
        counted = self.counter is not None and torch.is_grad_enabled()
        batch = torchrec.KeyedJaggedTensor(
            [table.name for table in tables], torch.cat(list(codes)),
            lengths=torch.tensor([len(part) for part in codes], dtype=torch.int32),
            weights=self._counts(tables, codes) if counted else None,
        )  # fmt: skip
        pending = input_distribution(batch).wait()
        wanted = pending.wait()
        own = wanted.values().split(wanted.length_per_key())
        if counted:
            for table, rows, counts in zip(
                tables, own, wanted.weights().split(wanted.length_per_key()), strict=True
            ):
                self.received.setdefault(table.name, []).append(Counted(rows, counts))
        local = lookup(
            [table.table.weight for table in tables], [{field: rows} for field, rows in enumerate(own)],
            names=[table.name for table in tables], accumulator=accumulator,
        )  # fmt: skip
        context = torchrec.SequenceShardingContext(
            features_before_input_dist=batch, input_splits=pending._input_splits["values"],
            output_splits=pending._output_splits["values"], unbucketize_permute_tensor=input_distribution.unbucketize_permute_tensor,
            lengths_after_input_dist=wanted.lengths().view(-1, wanted.stride()),
        )  # fmt: skip
        self._count_bytes(context, width=tables[0].shape[1], counted=counted)
        return output_distribution(torch.cat(local) if len(local) > 1 else local[0], context).wait()

    def _distribution(self, tables: Sequence[ShardedTable]) -> tuple[Any, Any]:
        names = tuple(table.name for table in tables)
        if names not in self._distributions:
            torchrec = import_torchrec()
            world, device = dist.group.WORLD, torch.device("cpu")
            sizes = [table.shape[0] for table in tables]
            self._distributions[names] = (
                torchrec.RwSparseFeaturesDist(world, len(names), sizes, device=device, is_sequence=True),
                torchrec.RwSequenceEmbeddingDist(world, len(names), device),
            )
        return self._distributions[names]

    def _counts(self, tables: Sequence[ShardedTable], codes: Sequence[Tensor]) -> Tensor:
        assert self.counter is not None
        return torch.cat(
            [self.counter(table, part).float() for table, part in zip(tables, codes, strict=True)]
        )

    def _count_bytes(self, context: Any, *, width: int, counted: bool) -> None:
        rank, training = group.rank(), torch.is_grad_enabled()
        sent = sum(context.input_splits) - context.input_splits[rank]
        asked = sum(context.output_splits) - context.output_splits[rank]
        self.bytes_sent += 4 * (sent * (1 + counted + training * width) + asked * width)


def _by_width(tables: Sequence[ShardedTable], fields: Mapping[int, Tensor]) -> list[list[int]]:
    """Return the fields that are looked up, grouped by the width of their tables."""
    widths: dict[int, list[int]] = {}
    for field in fields:
        widths.setdefault(tables[field].shape[1], []).append(field)
    return list(widths.values())


class _Gather(torch.autograd.Function):
    """Gather distinct rows for groups of positions; their gradients are summed before they are sent."""

    @staticmethod
    def forward(ctx, groups: list[dict[int, Tensor]], *rows: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.groups, ctx.rows = groups, rows
        return tuple(lookup(rows, groups))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor | None):
        grads: list[list[SparseGrad]] = [[] for _ in ctx.rows]
        for fields, grad_output in zip(ctx.groups, grad_outputs, strict=True):
            column = 0
            for field, positions in fields.items():
                if grad_output is not None:
                    grads[field].append(SparseGrad(positions, grad_output, column))
                column += ctx.rows[field].shape[1]
        return None, *(dense_sums(each, rows) for each, rows in zip(grads, ctx.rows, strict=True))
