"""Saved states of a fit on several ranks: each rank writes its rows, and any number of ranks reads them.

A state is a folder ``step_<n>`` with ``common.pt``, which rank 0 writes, and ``rows_<rank>.pt``. ``current.json`` names the folder
that is complete; it is replaced after all ranks have written theirs. All machines need the same folder, as of a network file system.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deep_interest.distributed import group
from deep_interest.distributed.shards import Shard, own_shard
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of
from deep_interest.training.state import Progress

logger = logging.getLogger(__name__)

_CURRENT, _COMMON = "current.json", "common.pt"


class ShardedStates:
    """States of one fit.

    Args:
        folder: folder of the fit's states, shared by all ranks.
        fingerprint: hash of everything that determines the result; a state with another fingerprint is not read.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder, self.fingerprint = folder, fingerprint

    def write(self, progress: Progress, common: Mapping[str, Any], rows: Mapping[str, Tensor]) -> None:
        """Write a state, on all ranks together, and remove earlier ones.

        Args:
            progress: progress of the fit.
            common: what is the same on all ranks.
            rows: own rows of tables and of their moments, by name.
        """
        state = self.folder / f"step_{progress.total_steps}{'_done' if progress.done else ''}"
        if group.rank() == 0:
            shutil.rmtree(state, ignore_errors=True)
            state.mkdir(parents=True)
        group.all_agree(True)
        _save(dict(rows), state / _rows_file(group.rank()))
        if group.rank() == 0:
            _save({"progress": asdict(progress), **common}, state / _COMMON)
        group.all_agree(True)
        if group.rank() == 0:
            current = {"state": state.name, "ranks": group.size(), "fingerprint": self.fingerprint}
            with atomic_path(self.folder / _CURRENT, checksum=True) as temporary:
                temporary.write_text(json.dumps(current))
            for other in self.folder.glob("step_*"):
                if other != state:
                    shutil.rmtree(other, ignore_errors=True)
        group.all_agree(True)
        self._state, self._ranks = state, group.size()

    def read_common(self) -> dict[str, Any] | None:
        """Return what is the same on all ranks of the current state; None if there is no state, or if one of its files is damaged."""
        current = group.from_rank_0(self._current() if group.rank() == 0 else None)
        if current is None:
            return None
        self._state, self._ranks = self.folder / current["state"], current["ranks"]
        files = [self._state / _COMMON, *self._files()]
        damage = [damage for file in files if (damage := damage_of(file))] if group.rank() == 0 else []
        if not group.all_agree(not damage):
            logger.warning("%s: %s; the fit starts again", self._state, "; ".join(damage) or "damaged")
            return None
        return self.read_common_again()

    def read_common_again(self) -> dict[str, Any]:
        """Return what is the same on all ranks of the state that was written or read last; any rank may call it alone."""
        return torch.load(self._state / _COMMON, weights_only=True)

    def read_rows(self, rows: Mapping[str, int]) -> dict[str, Tensor]:
        """Return own rows of the state that `read_common` has found.

        Args:
            rows: number of rows of each whole table, by name.
        """
        return {name: self._read(name, own_shard(count)) for name, count in rows.items()}

    def read_whole(self, name: str, rows: int, out: Tensor) -> None:
        """Read a whole table into ``out (rows, D)``."""
        for begin, part in self._parts(name, rows):
            out[begin : begin + len(part)] = part

    def _read(self, name: str, shard: Shard) -> Tensor:
        found: list[Tensor] = []
        for begin, part in self._parts(name, shard.rows):
            first, last = max(shard.begin - begin, 0), min(shard.end - begin, len(part))
            if first < last or not found:
                found.append(part[first : max(first, last)])
        return torch.cat(found)

    def _parts(self, name: str, rows: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the parts of a table, mapped into memory, and their first rows."""
        for rank, file in enumerate(self._files()):
            part = torch.load(file, weights_only=True, mmap=True)[name]
            yield Shard.of(rows, rank, self._ranks).begin, part

    def _files(self) -> list[Path]:
        return [self._state / _rows_file(rank) for rank in range(self._ranks)]

    def _current(self) -> dict[str, Any] | None:
        path = self.folder / _CURRENT
        if not path.exists():
            return None
        if damage := damage_of(path):
            logger.warning("%s: %s; the fit starts again", path, damage)
            return None
        current = json.loads(path.read_text())
        return current if current["fingerprint"] == self.fingerprint else None


def _rows_file(rank: int) -> str:
    return f"rows_{rank:05}.pt"


def _save(content: dict[str, Any], path: Path) -> None:
    with atomic_path(path, checksum=True) as temporary, temporary.open("wb") as file:
        torch.save(content, file)
