"""Embedding tables with row-sparse gradients, and vectors of multi-hot and dense fields from their rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.logs.schema import FeatureSchema, Field, Group, Pooling
from deep_interest.models.batch import ValueSetsByField
from deep_interest.models.dense import table_rows, times_z
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.packed_tables import PackedTable
from deep_interest.ops.row_source import RowSource
from deep_interest.ops.segments import segment_sum

NO_VALUE_SETS: ValueSetsByField = MappingProxyType({})
RowsFactory = Callable[[int, int, float], Tensor]
"""Returns the initial rows of a table of some rows, width and standard deviation."""
_rows_factory: ContextVar[RowsFactory | None] = ContextVar("rows_factory", default=None)


@contextmanager
def tables_with_rows(factory: RowsFactory) -> Iterator[None]:
    """Build models whose tables have the rows that a function returns, such as a part of them, or none."""
    token = _rows_factory.set(factory)
    try:
        yield
    finally:
        _rows_factory.reset(token)


def tables_without_rows() -> AbstractContextManager[None]:
    """Build models whose tables take no memory, because their rows are loaded afterwards."""
    return tables_with_rows(
        lambda size, dim, std: torch.zeros(1, 1).expand(size, dim)
    )  # one number in memory


class Table(nn.Embedding):
    """Embedding table of a field, with row-sparse gradients.

    The codes of a dense field look up two rows, see `models.dense`.

    Args:
        field: field whose codes are the rows.
        dim: embedding width.
        groups: feature groups that use the table; regularisers count the occurrences of codes in them.
        sequences: further sequences of behaviours that use the table, likewise.
        std: standard deviation of the initial embeddings.
        keep_top: number of codes that keep their own row, see `keep_most_frequent`; 0 for all.
    """

    kept: Tensor
    packed_values: Tensor | None
    packed_scales: Tensor | None

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`
    source: RowSource | None = None  # of rows that are not all in ``weight``

    def __init__(
        self,
        field: Field,
        dim: int,
        *,
        groups: Sequence[Group],
        std: float,
        keep_top: int = 0,
        sequences: Sequence[str] = (),
    ) -> None:
        factory = _rows_factory.get()
        if factory is None:
            super().__init__(field.size, dim, sparse=True)
        else:
            super().__init__(
                1, dim, sparse=True, _weight=torch.empty(1, dim)
            )  # which draws no random numbers
            self.num_embeddings = field.size
        self.field, self.dense, self.groups, self.keep_top = field.name, field.dense, tuple(groups), keep_top
        self.sequences = tuple(sequences)
        self.register_buffer("packed_values", None, persistent=False)
        self.register_buffer("packed_scales", None, persistent=False)
        if keep_top:
            self.register_buffer("kept", torch.ones(field.size, dtype=torch.bool))
        if factory is not None:
            self.weight = nn.Parameter(factory(field.size, dim, std))
        else:
            nn.init.normal_(self.weight, std=std) if std else nn.init.zeros_(self.weight)

    @property
    def is_counted(self) -> bool:
        """Whether the occurrences of codes can be counted: not for crossed and derived fields."""
        return bool(self.groups or self.sequences)

    def forward(self, codes: Tensor) -> Tensor:
        groups = [{0: self.rows_of(codes)}]
        rows = lookup([self.content], groups, names=[self.field], accumulator=self.accumulator)[0]
        return times_z(rows, codes) if self.dense else rows

    @property
    def content(self) -> Tensor | PackedTable | RowSource:
        """The rows: the parameter ``weight``, or in its place a table of reduced precision or a source of rows."""
        if self.source is not None:
            return self.source
        if self.packed_values is None:
            return self.weight
        return PackedTable(self.packed_values, self.packed_scales)

    def replace_rows(self, rows: PackedTable | Tensor) -> None:
        """Replace the rows, for inference, by those of a packed table, or by float32 rows."""
        if isinstance(rows, PackedTable):
            self.packed_values, self.packed_scales = rows
            self.register_parameter("weight", None)
        else:
            self.packed_values = self.packed_scales = None
            self.weight = nn.Parameter(rows, requires_grad=False)

    def rows_of(self, codes: Tensor) -> Tensor:
        """Return the row of each code: its own, the unknown row, or one of the two rows of a dense field. Shape: ``(n,) -> (n,)``.

        Raises:
            InputError: a code on the CPU is outside the table.
        """
        if self.dense:
            return table_rows(codes, self.field)
        if not self.keep_top:
            return codes
        if codes.is_cpu:
            check_codes(codes.numpy(), self.num_embeddings, self.field)
        return codes * self.kept[codes]

    def keep_most_frequent(self, occurrences: Tensor) -> None:
        """Make all codes except the ``keep_top`` most frequent share the unknown row (DIN §6.5, filter).

        Args:
            occurrences: ``(rows,)`` number of occurrences of each code in training; ties keep the lower code.
        """
        order = occurrences.argsort(descending=True, stable=True)
        self.kept.zero_()[order[: self.keep_top]] = True


class Embeddings(nn.Module):
    """One embedding table per field; candidate and behaviours share tables. Gradients are row-sparse.

    The vectors of the values of a multi-hot field are pooled, so that every field is one vector (DIN §4.1). The vector of a dense field
    is a row that is multiplied by the value (`models.dense`).

    Args:
        schema: feature groups.
        dim: embedding width of every table.
        own_dim: embedding width of the fields that only a behaviour has; ``dim`` if None.
        std: standard deviation of the initial embeddings.
        keep_top: number of items that keep their own row; 0 for all.
    """

    accumulator: GradientAccumulator | None = None  # during a training step, see `Optimizer.accumulate`

    def __init__(
        self, schema: FeatureSchema, *, dim: int, own_dim: int | None = None, std: float = 0.01, keep_top: int = 0
    ) -> None:  # fmt: skip
        super().__init__()
        own = schema.own_names if own_dim is not None else frozenset()
        self.has_dense = any(field.dense for field in schema.table_fields.values())
        self.tables = nn.ModuleDict(
            {
                name: Table(
                    field,
                    own_dim if own_dim is not None and name in own else dim,
                    groups=schema.groups_of(name),
                    sequences=schema.sequences_with(name),
                    std=std,
                    keep_top=keep_top if name == ITEM_ID else 0,
                )
                for name, field in schema.table_fields.items()
            }
        )

    def forward(
        self,
        codes: Mapping[str, Tensor],
        fields: Sequence[Field],
        value_sets: ValueSetsByField = NO_VALUE_SETS,
    ) -> Tensor:
        """Look up and concatenate the fields' vectors.

        Args:
            codes: ``{field: (n,)}``; for a multi-hot field, indices of value sets; for a dense field, codes of numbers.
            fields: fields to look up, in order.
            value_sets: value sets of the multi-hot fields.

        Returns:
            ``(n, width)``, the sum of the fields' widths.
        """
        return self.lookup_groups((codes, fields), value_sets=value_sets)[0]

    def lookup_groups(
        self,
        *groups: tuple[Mapping[str, Tensor], Sequence[Field]],
        value_sets: ValueSetsByField = NO_VALUE_SETS,
    ) -> list[Tensor]:
        """Apply ``forward`` to several groups of codes in one operation, so that the gradient contains each row once."""
        one_hot = not (value_sets or self.has_dense)
        parts = [_parts(codes, fields, value_sets, one_hot=one_hot) for codes, fields in groups]
        rows = iter(self._rows([part.codes for group in parts for part in group]))
        return [_concatenate([part.vectors(next(rows)) for part in group]) for group in parts]

    def _rows(self, groups: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
        names = list(dict.fromkeys(name for group in groups for name in group))
        tables = {name: self.table(name) for name in names}
        index = {name: position for position, name in enumerate(names)}
        rows = [
            {index[name]: tables[name].rows_of(codes) for name, codes in group.items()} for group in groups
        ]
        return lookup(
            [table.content for table in tables.values()], rows, names=names, accumulator=self.accumulator
        )

    def table(self, name: str) -> Table:
        """Return the table of a field."""
        table = self.tables[name]
        assert isinstance(table, Table)
        return table


class _Part(NamedTuple):
    """Fields of one lookup: consecutive one-hot fields, one multi-hot field with its value sets, or one dense field."""

    codes: dict[str, Tensor]
    value_sets: Jagged | None = None
    pooling: Pooling | None = None
    dense: bool = False

    def vectors(self, rows: Tensor) -> Tensor:
        if self.dense:
            (codes,) = self.codes.values()
            return times_z(rows, codes)
        if self.value_sets is None or self.pooling is None:
            return rows
        return pool(rows, self.value_sets, self.pooling)


def _parts(
    codes: Mapping[str, Tensor], fields: Sequence[Field], value_sets: ValueSetsByField, *, one_hot: bool
) -> list[_Part]:
    """Divide a group of fields into lookups; ``one_hot`` says that all fields are."""
    if one_hot:
        return [_Part({field.name: codes[field.name] for field in fields})]
    parts = []
    for are_one_hot, neighbours in groupby(fields, key=lambda field: field.one_hot):
        if are_one_hot:
            parts.append(_Part({field.name: codes[field.name] for field in neighbours}))
        else:
            parts += [_part(codes[field.name], field, value_sets) for field in neighbours]
    return parts


def _part(codes: Tensor, field: Field, value_sets: ValueSetsByField) -> _Part:
    """Return the lookup of a multi-hot or dense field."""
    if field.dense:
        return _Part({field.name: codes}, dense=True)
    values, runs = value_sets[field.name].of(codes, field.name)
    return _Part({field.name: values}, runs, field.pooling)


def _concatenate(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def pool(values: Tensor, segments: Jagged, pooling: Pooling) -> Tensor:
    """Return the sum or mean of the rows of each segment; 0 for an empty one. Shape: ``(N, D) -> (B, D)``."""
    sums = segment_sum(values, segments)
    return sums if pooling == "sum" else mean_by_length(sums, segments.lengths)


def mean_by_length(sums: Tensor, lengths: Tensor) -> Tensor:
    """Divide each sum by the length of its segment; an empty segment stays 0.

    Shape: ``sums (B, D)``, ``lengths (B,)`` -> ``(B, D)``.
    """
    return sums / lengths.clamp(min=1).unsqueeze(-1).to(sums.dtype)


def embedding_tables(module: nn.Module) -> list[Table]:
    """Return the embedding tables of a model; their gradients are row-sparse."""
    return [child for child in module.modules() if isinstance(child, Table)]
