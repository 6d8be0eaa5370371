"""Embedding rows that no training sample looks up: the unknown row (code 0) and those of ids without a sample.

Such a row receives no gradient, so it would keep its random initial values and add noise to every prediction for a new id.
It is set to the mean of the trained rows of its table instead, so that an unknown id behaves like an average known one. The rows of
a dense field are set to 0, so that a missing number behaves like the mean of the training rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.training.regularizers import occurrence_key

_CHUNK = (
    1 << 14
)  # rows summed at once: few enough for torch to sum in one order, whatever the number of threads


@dataclass(frozen=True)
class TableRows:
    """The rows of one table.

    Attributes:
        table: the embedding table.
        trained: ``(rows,)`` bool, rows that training samples look up.
        untrained: ``(k,)`` int64, rows to set.
    """

    table: Table
    trained: Tensor
    untrained: Tensor


class UnknownRows:
    """Set the untrained rows of a model's tables to the unweighted mean of the trained rows.

    A mean weighted by occurrences would make an unknown id similar to popular ids, which validates worse: a new id resembles
    the many rare ones. Tables of crossed features do not change: their weights start at 0, which is right for an unseen cross.

    Args:
        tables: embedding tables of a model.
        occurrences: ``{key: (rows,)}`` training samples of each id, by `regularizers.occurrence_key`.
        negative_fields: fields of the negatives of an auxiliary loss, which trains all their ids.
        trained_before: ``{key: rows}``: the rows from 1 (of a dense field from 0) up to this number come from an earlier model and are
            kept.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        occurrences: Mapping[str, Tensor],
        *,
        negative_fields: Sequence[str] = (),
        trained_before: Mapping[str, int] | None = None,
    ) -> None:
        before = trained_before or {}
        self.tables: list[TableRows] = []
        for table in (table for table in tables if table.is_counted):
            key = occurrence_key(table)
            trained = occurrences[key] > 0
            untrained = ~trained
            if table.field in negative_fields:
                untrained[1:] = False
            first = 0 if table.dense else 1
            untrained[first : before.get(key, first)] = False
            if (trained.any() or table.dense) and untrained.any():
                self.tables.append(TableRows(table, trained, untrained.nonzero().squeeze(1)))

    @classmethod
    def of(
        cls,
        model: nn.Module,
        occurrences: Mapping[str, Tensor],
        *,
        trained_before: Mapping[str, int] | None = None,
    ) -> "UnknownRows":
        """Build from a model; see the class for the arguments."""
        return cls(
            embedding_tables(model),
            occurrences,
            negative_fields=negative_fields(model),
            trained_before=trained_before,
        )

    @torch.no_grad()
    def fill(self) -> None:
        """Set the untrained rows to the current mean of the trained rows, or to 0 for a dense field."""
        for rows in self.tables:
            table = rows.table
            table.weight[rows.untrained] = 0 if table.dense else self._mean(table.weight, rows.trained)

    def _mean(self, table: Tensor, chosen: Tensor) -> Tensor:
        """Return the mean of the chosen rows, of the table's dtype. Shape: ``(rows, dim), (rows,) -> (dim,)``."""
        return (sum_of_rows(table, chosen) / chosen.sum()).to(table.dtype)


def negative_fields(model: nn.Module) -> list[str]:
    """Return the fields of the negatives of a model's auxiliary loss; none without such a loss."""
    if not getattr(model, "uses_negatives", False):
        return []
    schema = model.schema
    assert isinstance(schema, FeatureSchema)
    return [field.name for field in schema.shared]


def sum_of_rows(table: Tensor, chosen: Tensor) -> Tensor:
    """Return the sum of the chosen rows in float64. Shape: ``(rows, dim), (rows,) -> (dim,)``."""
    total = torch.zeros(table.shape[1], dtype=torch.float64, device=table.device)
    for rows, mask in zip(table.split(_CHUNK), chosen.split(_CHUNK), strict=True):
        total += (rows.double() * mask.unsqueeze(1)).sum(0)
    return total
