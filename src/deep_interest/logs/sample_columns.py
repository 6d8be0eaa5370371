"""Samples as a folder of ``.npy`` files, one for each column, which are mapped into memory.

Rows are ordered by split, so that the samples of a split are a slice of every column; the order within a split is kept.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.io.atomic import atomic_path
from deep_interest.logs.samples import SPLITS

_SPLITS = "splits.json"
Parts = Callable[[], Iterator[pd.DataFrame]]
"""Yields the parts of a table of samples, each time that it is called."""


def save_samples(parts: Parts, path: Path) -> None:
    """Write samples part by part: no more than one part is in memory.

    Args:
        parts: parts of the table, with the same columns; called twice.
        path: folder to write.
    """
    columns, sizes = _columns_of(parts)
    with atomic_path(path, directory=True) as folder:
        arrays = {
            name: np.lib.format.open_memmap(
                folder / f"{name}.npy", mode="w+", dtype=dtype, shape=(sum(sizes),)
            )
            for name, dtype in columns.items()
        }
        begins = np.cumsum([0, *sizes[:-1]])
        for part in parts():
            codes = _codes(part)
            for index in range(len(SPLITS)):
                rows = np.flatnonzero(codes == index)
                for name, array in arrays.items():
                    array[begins[index] : begins[index] + len(rows)] = part[name].to_numpy()[rows]
                begins[index] += len(rows)
        for array in arrays.values():
            array.flush()
        (folder / _SPLITS).write_text(json.dumps(dict(zip(SPLITS, map(int, sizes), strict=True))))


def load_samples(path: Path) -> pd.DataFrame:
    """Read a folder that `save_samples` has written; columns are mapped into memory."""
    folder = path.resolve()
    sizes = json.loads((folder / _SPLITS).read_text())
    columns = {
        file.name.removesuffix(".npy"): np.asarray(np.load(file, mmap_mode="c", allow_pickle=False))
        for file in sorted(folder.glob("*.npy"))
    }
    codes = np.repeat(np.arange(len(SPLITS), dtype=np.int8), [sizes[name] for name in SPLITS])
    frame = pd.DataFrame(columns, copy=False)
    frame["split"] = pd.Categorical.from_codes(codes, categories=list(SPLITS))
    return frame


def _columns_of(parts: Parts) -> tuple[dict[str, np.dtype], list[int]]:
    """Return the type of each column, and the number of samples of each split."""
    columns: dict[str, np.dtype] = {}
    sizes = np.zeros(len(SPLITS), np.int64)
    for part in parts():
        sizes += np.bincount(_codes(part), minlength=len(SPLITS))
        found = {name: part[name].to_numpy().dtype for name in part if name != "split"}
        if others := [name for name, dtype in found.items() if dtype.hasobject]:
            raise InputError(
                f"samples: the columns {', '.join(others)} are not numbers, so that they cannot be mapped into memory; store the samples as "
                "pandas.ParquetDataset"
            )
        columns = {name: np.result_type(dtype, columns.get(name, dtype)) for name, dtype in found.items()}
    columns["label"] = np.dtype(np.float32)  # as training reads it
    return columns, sizes.tolist()


def _codes(part: pd.DataFrame) -> np.ndarray:
    return pd.Categorical(part["split"], categories=list(SPLITS)).codes
