"""The inputs of an exported model as vectors: fields, histories and candidates."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.export.inputs import CANDIDATES, HISTORY
from deep_interest.logs.schema import FeatureSchema, Field, Pooling
from deep_interest.models.embeddings import Table

Size = int | torch.SymInt


class History(NamedTuple):
    """The behaviours of a user, oldest first, after one row of padding, so that no history is empty.

    Attributes:
        vectors: ``(T + 1, D)``; row 0 is 0.
        shared: ``(T + 1, S)`` the fields that the candidate also has; row 0 is 0.
        real: ``(T + 1,)`` float, 0 for the padding and 1 for a behaviour.
        length: T.
    """

    vectors: Tensor
    shared: Tensor
    real: Tensor
    length: Size

    @property
    def distances(self) -> Tensor:
        """``(T + 1,)`` number of later behaviours."""
        return torch.arange(self.real.shape[0], device=self.real.device).flip(0)

    def pooled(self, pooling: Pooling) -> Tensor:
        """Return the sum or mean of the behaviours, ``(1, D)``; 0 without behaviours."""
        total = self.vectors.sum(0, keepdim=True)
        return total if pooling == "sum" else total / self.real.sum().clamp(min=1)

    def newest(self, count: int) -> "History":
        """Return the newest ``count`` behaviours after rows of padding, ``count`` rows in total."""
        padding = self.vectors.new_zeros(count, 1)
        vectors, shared = (
            torch.cat([padding.expand(-1, rows.shape[1]), rows])[-count:]
            for rows in (self.vectors, self.shared)
        )
        return History(vectors, shared, torch.cat([padding.squeeze(1), self.real])[-count:], count - 1)


class Request:
    """One user and C candidates.

    Args:
        inputs: the inputs by name, as `inputs.input_specs` describes them.
        schema: feature groups of the model.
    """

    def __init__(self, inputs: Mapping[str, Tensor], schema: FeatureSchema) -> None:
        self.inputs, self.schema = inputs, schema

    @property
    def size(self) -> Size:
        """C, the number of candidates."""
        return self._rows(CANDIDATES, self.schema.item[0])

    def length(self, group: str, fields: Sequence[Field]) -> Size:
        """Return the number of behaviours in a sequence."""
        return self._rows(group, fields[0])

    def codes(self, group: str, field: str) -> Tensor:
        """Return the codes of a one-hot field, ``(n,)`` int64."""
        return self.inputs[f"{group}.{field}"]

    def numbers(self, group: str, field: str) -> Tensor:
        """Return z of a dense field, ``(n,)`` float32, and 0 for a missing value."""
        return self.inputs[f"{group}.{field}"].nan_to_num(0.0)

    def rows_of(self, group: str, field: Field, table: Table) -> Tensor:
        """Look up the vectors of a field in a table; those of multi-hot and dense fields as `models.embeddings`
        defines them.

        Returns:
            ``(n, D)``.
        """
        name, weight = f"{group}.{field.name}", table.weight
        if field.dense:
            z = self.inputs[name].unsqueeze(1)
            return torch.where(z.isnan(), weight[0], z * weight[1])
        if field.pooling:
            values = F.embedding(_kept(self.inputs[f"{name}.values"], table), weight)
            return _pool_value_sets(values, self.inputs[f"{name}.offsets"], field.pooling)
        return F.embedding(_kept(self.inputs[name], table), weight)

    def vectors(self, group: str, fields: Sequence[Field], tables: nn.Module) -> Tensor:
        """Look up and concatenate the vectors of some fields, ``(n, len(fields) * D)``."""
        return torch.cat(
            [self.rows_of(group, field, table_of(tables, field.name)) for field in fields], dim=1
        )

    def padded(self, group: str, fields: Sequence[Field], vectors: Tensor, shared: Tensor) -> History:
        """Return the history of a sequence from the vectors of its behaviours, ``(T, D)`` and ``(T, S)``."""
        real = torch.ones_like(vectors[:, 0])
        return History(
            F.pad(vectors, (0, 0, 1, 0)),
            F.pad(shared, (0, 0, 1, 0)),
            F.pad(real, (1, 0)),
            self.length(group, fields),
        )

    def for_each(self, rows: Tensor) -> Tensor:
        """Repeat a row for each candidate. Shape: ``(1, D) -> (C, D)``."""
        return rows.expand(self.size, -1)

    def _rows(self, group: str, field: Field) -> Size:
        name = f"{group}.{field.name}"
        return self.inputs[f"{name}.offsets" if field.pooling else name].shape[0]


def table_of(tables: nn.Module, name: str) -> Table:
    """Return an embedding table of a dictionary of tables."""
    return cast("Table", tables.get_submodule(name))


def history_of(request: Request, fields: Sequence[Field], tables: nn.Module) -> History:
    """Return the history with some of its fields, from tables without own fields."""
    vectors = request.vectors(HISTORY, fields, tables)
    return request.padded(HISTORY, fields, vectors, vectors)


def _kept(codes: Tensor, table: Table) -> Tensor:
    return codes * table.kept[codes] if table.keep_top else codes


def _pool_value_sets(values: Tensor, offsets: Tensor, pooling: Pooling) -> Tensor:
    """Pool the values of each row. Shape: ``values (M, D)``, ``offsets (n,)`` -> ``(n, D)``."""
    position = torch.arange(values.shape[0], device=values.device)
    row_of_value = (offsets.unsqueeze(1) <= position).sum(0) - 1  # (M,)
    row = torch.arange(offsets.shape[0], device=values.device)
    member = (row.unsqueeze(1) == row_of_value).to(values.dtype)  # (n, M)
    sums = member @ values
    return sums if pooling == "sum" else sums / member.sum(1, keepdim=True).clamp(min=1)
