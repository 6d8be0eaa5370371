"""The sorted log as arrays on disk, in memory of one partition and one block.

The log of a partition is sorted by segment (the user, or the given history), and the segments of all partitions together are those of
the log. Each partition is first written as a run, one file for each column. The arrays of the log are then written block by block: the
behaviours of a block of segments are a slice of each run.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.lib.format as npy

_BLOCK = 8_000_000  # behaviours

Fields = Mapping[str, tuple[np.dtype, Callable[[dict[str, np.ndarray]], np.ndarray]]]
"""``{name of the array: (type, function of the columns of a block)}``."""


class LogRuns:
    """Runs of a log, in a folder of their own.

    Args:
        folder: empty folder.
        segments: number of segments of the log.
    """

    def __init__(self, folder: Path, segments: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._columns: dict[str, np.dtype] = {}
        self._runs = 0
        self.lengths = np.zeros(segments, np.int64)

    @property
    def offsets(self) -> np.ndarray:
        """``(S + 1,)`` int64 segments of the log."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def add(self, segment: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Write a run.

        Args:
            segment: ``(n,)`` segment of each behaviour, increasing; no other run has one of them.
            columns: ``(n,)`` values in the order of the segments and of the positions within them.
        """
        if not len(segment):
            return
        begins = np.flatnonzero(np.concatenate([[True], segment[1:] != segment[:-1]]))
        lengths = np.diff(np.concatenate([begins, [len(segment)]]))
        self.lengths[segment[begins]] = lengths
        self._file("segments", self._runs).write_bytes(segment[begins].astype(np.int32).tobytes())
        for name, values in columns.items():
            self._columns[name] = values.dtype
            values.tofile(self._file(name, self._runs))
        self._runs += 1

    def write(self, folder: Path, prefix: str, fields: Fields) -> None:
        """Write the arrays of the log and remove the runs.

        Args:
            folder: existing folder of the log, in the format of `logs.storage`.
            prefix: beginning of the names of the files.
            fields: arrays to write.
        """
        offsets = self.offsets
        np.save(folder / f"{prefix}offsets.npy", offsets)
        files = {name: (folder / f"{prefix}{name}.npy").open("wb") for name in fields}
        try:
            for name, file in files.items():
                header = {
                    "descr": npy.dtype_to_descr(fields[name][0]),
                    "fortran_order": False,
                    "shape": (int(offsets[-1]),),
                }
                npy.write_array_header_1_0(file, header)
            for block in self._blocks(offsets):
                for name, file in files.items():
                    dtype, values_of = fields[name]
                    values_of(block).astype(dtype, copy=False).tofile(file)
        finally:
            for file in files.values():
                file.close()
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    def _blocks(self, offsets: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
        """Yield the columns of about `_BLOCK` behaviours of consecutive segments after another."""
        segments = [np.fromfile(self._file("segments", run), np.int32) for run in range(self._runs)]
        read = [0] * self._runs  # behaviours of each run
        first = 0
        while first < len(offsets) - 1:
            end = int(np.searchsorted(offsets, offsets[first] + _BLOCK, side="right")) - 1
            end = max(end, first + 1)
            block = {
                name: np.empty(offsets[end] - offsets[first], dtype) for name, dtype in self._columns.items()
            }
            for run, of_run in enumerate(segments):
                low, high = np.searchsorted(of_run, [first, end])
                chosen = of_run[low:high]
                rows = _rows(offsets[chosen] - offsets[first], self.lengths[chosen])
                for name, values in block.items():
                    values[rows] = np.fromfile(
                        self._file(name, run),
                        values.dtype,
                        len(rows),
                        offset=read[run] * values.dtype.itemsize,
                    )
                read[run] += len(rows)
            yield block
            first = end

    def _file(self, name: str, run: int) -> Path:
        return self._folder / f"{run:05}.{name}"


def _rows(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the concatenated ranges ``begins[k] … begins[k] + lengths[k] - 1``."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(begins - (ends - lengths), lengths)
