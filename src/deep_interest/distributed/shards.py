"""Which rows of a table a rank owns, and their initial values."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deep_interest.distributed import group

_CHUNK = 1 << 16  # rows drawn at once, a multiple of 16
_DRAWN_TOGETHER = 16  # torch draws this many normal values from as many uniform ones


@dataclass(frozen=True)
class Shard:
    """The rows of a table that a rank owns: a block, as in TorchRec's row-wise sharding.

    Attributes:
        begin: first row.
        end: last row + 1.
        rows: number of rows of the whole table.
    """

    begin: int
    end: int
    rows: int

    @classmethod
    def of(cls, rows: int, rank: int, size: int) -> "Shard":
        """Return the block of a rank."""
        block = -(-rows // size)
        return cls(min(rank * block, rows), min((rank + 1) * block, rows), rows)


def own_shard(rows: int) -> Shard:
    """Return the block of this rank."""
    return Shard.of(rows, group.rank(), group.size())


def initial_rows(rows: int, dim: int, std: float) -> Tensor:
    """Draw a table as `models.embeddings.Table` does, and keep the rows of this rank: memory does not grow with the table.

    The same values are drawn from torch's random state as in a process that keeps all of them, and its state is the same afterwards.
    """
    shard = own_shard(rows)
    _draw(rows, dim, 1.0, None)  # what `nn.Embedding` draws and `Table` replaces
    own = torch.zeros(shard.end - shard.begin, dim)
    if std:
        _draw(rows, dim, std, (shard, own))
    return own


def empty_rows(rows: int, dim: int, std: float) -> Tensor:
    """Return memory for the rows of this rank, which are loaded afterwards."""
    shard = own_shard(rows)
    return torch.empty(shard.end - shard.begin, dim)


def _draw(rows: int, dim: int, std: float, keep: tuple[Shard, Tensor] | None) -> None:
    begin = 0
    while begin < rows:
        end = min(begin + _CHUNK, rows)
        if (rows - end) * dim < _DRAWN_TOGETHER:
            end = rows  # torch draws the last 16 values together
        chunk = nn.init.normal_(torch.empty(end - begin, dim), std=std)
        if keep is not None:
            shard, own = keep
            first, last = max(begin, shard.begin), min(end, shard.end)
            if first < last:
                own[first - shard.begin : last - shard.begin] = chunk[first - begin : last - begin]
        begin = end
