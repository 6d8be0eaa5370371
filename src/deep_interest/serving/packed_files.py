"""Embedding tables of reduced precision as ``.npy`` files of a version, without pickle and memory-mapped."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from deep_interest.ops.limits import TablePrecision
from deep_interest.ops.packed_tables import PackedTable

_VALUES, _SCALES = ".values.npy", ".scales.npy"


def save_tables(folder: Path, tables: Mapping[str, PackedTable]) -> None:
    """Write ``<table>.values.npy``, and for int8 ``<table>.scales.npy``; bfloat16 as the int16 with the same bits."""
    for name, table in tables.items():
        values = table.values.view(torch.int16) if table.values.dtype == torch.bfloat16 else table.values
        np.save(folder / f"{name}{_VALUES}", values.numpy(), allow_pickle=False)
        if table.scales is not None:
            np.save(folder / f"{name}{_SCALES}", table.scales.numpy(), allow_pickle=False)


def load_tables(folder: Path, precision: TablePrecision) -> dict[str, PackedTable]:
    """Read the tables of a version by name; they are memory-mapped, so that processes share them."""
    if precision == "float32":
        return {}
    return {
        file.name.removesuffix(_VALUES): _load_table(file, precision)
        for file in sorted(folder.resolve().glob(f"*{_VALUES}"))
    }


def _load_table(file: Path, precision: TablePrecision) -> PackedTable:
    values, scales = _load(file), file.with_name(file.name.removesuffix(_VALUES) + _SCALES)
    return PackedTable(
        values.view(torch.bfloat16) if precision == "bfloat16" else values,
        _load(scales) if precision == "int8" else None,
    )


def _load(file: Path) -> Tensor:
    """Map an array copy-on-write: torch needs writable arrays, and changes are never written back."""
    return torch.from_numpy(np.load(file, mmap_mode="c", allow_pickle=False))
