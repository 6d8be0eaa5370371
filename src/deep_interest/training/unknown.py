"""Embedding rows that no training sample looks up: the unknown id's (code 0) and those of ids without a sample.

Gradients never reach such a row, so it would keep its random initial values and add noise to every prediction for a new
id. It is set to the mean of its table's trained rows instead, which makes an unknown id an average known one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deep_interest.models.layers import Table, embedding_tables
from deep_interest.training.regularizers import occurrence_key

_CHUNK = 1 << 14  # rows added up at once: torch sums so few in one order whatever the number of threads


@dataclass(frozen=True)
class _TableRows:
    """The rows of one table.

    Attributes:
        table: the embedding table.
        trained: ``(rows,)`` bool, the rows that training samples look up.
        untrained: ``(k,)`` int64, the rows to set.
    """

    table: Table
    trained: Tensor
    untrained: Tensor


class UnknownRows:
    """Sets the untrained rows of a model's tables to the mean of the trained ones, each of which counts once.

    A mean weighted by occurrences would make an unknown id a popular one, and validates worse: a new id resembles the many
    rare ones. Tables of crossed features are left alone: their weights begin at 0, and a cross without a sample adds nothing.

    Args:
        tables: embedding tables of a model.
        occurrences: ``{key: (rows,)}`` training samples of each id, by `regularizers.occurrence_key`.
        drawn: fields whose ids the model draws as negatives of an auxiliary loss, which trains them too.
        trained_before: ``{key: rows}``: the rows from 1 up to this number are an earlier model's and stay as they are.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        occurrences: Mapping[str, Tensor],
        *,
        drawn: Sequence[str] = (),
        trained_before: Mapping[str, int] | None = None,
    ) -> None:
        before = trained_before or {}
        self._tables = []
        for table in (table for table in tables if table.groups):
            key = occurrence_key(table)
            trained = occurrences[key] > 0
            untrained = ~trained
            if table.field in drawn:
                untrained[1:] = False
            untrained[1 : before.get(key, 1)] = False
            if trained.any() and untrained.any():
                self._tables.append(_TableRows(table, trained, untrained.nonzero().squeeze(1)))

    @classmethod
    def of(
        cls,
        model: nn.Module,
        occurrences: Mapping[str, Tensor],
        *,
        trained_before: Mapping[str, int] | None = None,
    ) -> "UnknownRows":
        """The untrained rows of a model; see the class for the arguments."""
        return cls(
            embedding_tables(model), occurrences, drawn=drawn_fields(model), trained_before=trained_before
        )

    @torch.no_grad()
    def fill(self) -> None:
        """Set the untrained rows to the mean of the trained ones as they are now."""
        for rows in self._tables:
            rows.table.weight[rows.untrained] = _mean(rows.table.weight, rows.trained)


def drawn_fields(model: nn.Module) -> list[str]:
    """The behaviour fields of the items that a model's auxiliary loss draws; none without such a loss."""
    draws = getattr(model, "uses_negatives", False)
    return [field.name for field in model.schema.behavior] if draws else []


def _mean(table: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen rows, summed in float64. Shape: ``(rows, dim), (rows,) -> (dim,)`` of the table's type."""
    total = torch.zeros(table.shape[1], dtype=torch.float64, device=table.device)
    for rows, mask in zip(table.split(_CHUNK), chosen.split(_CHUNK), strict=True):
        total += (rows.double() * mask.unsqueeze(1)).sum(0)
    return (total / chosen.sum()).to(table.dtype)
