"""Embedding tables in half precision or int8, whose rows become float32 when they are looked up; for inference.

In ``int8`` a row x is ``s · q`` with ``s = max |x| / 127`` and ``q = round(x / s)``: symmetric quantisation with one scale for each row
(Guan et al. 2019, "Post-Training 4-bit Quantization on Embedding Tables", with 8 bits). The error of a value is at most ``s / 2``.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.ops.kernels.embedding import gather_rows
from deep_interest.ops.kernels.packed_tables import gather_half_rows, gather_scaled_rows
from deep_interest.ops.limits import TablePrecision
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.memory import empty_rows
from deep_interest.ops.runtime.parallel import run_kernel

_HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_CONVERSION = {
    torch.float16: (np.uint32(13), np.float32(2.0**112)),
    torch.bfloat16: (np.uint32(16), np.float32(1)),
}
_LARGEST = 127


class PackedTable(NamedTuple):
    """A table of reduced precision.

    Attributes:
        values: ``(R, D)``, float16, bfloat16 or int8.
        scales: ``(R,)`` float32 factors of the rows of an int8 table; None for the others.
    """

    values: Tensor
    scales: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """Rows and columns."""
        return self.values.shape

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def rows(self, codes: Tensor) -> Tensor:
        """Return rows as float32, the plain implementation of `look_up_packed`. Shape: ``(n,) -> (n, D)``."""
        positions = codes.long()
        scales = None if self.scales is None else self.scales[positions]
        return PackedTable(self.values[positions], scales).all_rows()

    def all_rows(self) -> Tensor:
        """Return the whole table as float32. Shape: ``-> (R, D)``."""
        return self.values.float() if self.scales is None else self.values.float() * self.scales.unsqueeze(1)


def packed_bytes(rows: int, width: int, precision: TablePrecision) -> int:
    """Return the bytes of a table in a precision."""
    per_row = {"float32": 4 * width, "int8": width + 4}.get(precision, 2 * width)
    return rows * per_row


def pack_table(table: Tensor, precision: TablePrecision, *, name: str) -> PackedTable:
    """Return a table in a reduced precision.

    Args:
        table: ``(R, D)`` float32.
        precision: ``float16``, ``bfloat16`` or ``int8``.
        name: name of the table in error messages.

    Raises:
        InputError: a value is not finite, or too large for the precision.
    """
    table = table.detach()
    if precision == "int8":
        scales = table.abs().amax(1) / _LARGEST
        steps = torch.where(scales > 0, scales, torch.ones_like(scales)).unsqueeze(1)
        packed = PackedTable((table / steps).round().clamp(-_LARGEST, _LARGEST).to(torch.int8), scales)
        finite = bool(scales.isfinite().all())
    else:
        packed = PackedTable(table.to(_HALF[precision]))
        finite = bool(packed.values.isfinite().all())
    if not finite:
        raise InputError(
            f"{name}: a value is not finite, or too large for {precision} (largest: {float(table.abs().max()):g}); train again with a "
            "lower learning rate, or keep the tables in float32"
        )
    return packed


def look_up_packed(
    tables: Sequence[Tensor | PackedTable], groups: Sequence[Mapping[int, Tensor]]
) -> list[Tensor]:
    """Look up rows of tables, some of which are packed, without gradients; the codes are not checked.

    Args:
        tables: ``(R_f, D_f)`` of each field f.
        groups: ``{f: codes (n,)}`` of each group.

    Returns:
        For each group the rows of its fields, concatenated: float32 ``(n, Σ D_f)``.
    """
    return [_look_up_group(tables, group) for group in groups]


def _look_up_group(tables: Sequence[Tensor | PackedTable], group: Mapping[int, Tensor]) -> Tensor:
    codes = next(iter(group.values()))
    if not codes.is_cpu or current_engine() == "plain":
        return torch.cat([_rows(tables[field], found) for field, found in group.items()], dim=1)
    width = sum(tables[field].shape[1] for field in group)
    rows, column = empty_rows(len(codes), width, torch.empty(0)), 0
    for field, found in group.items():
        _gather(tables[field], found, rows, column)
        column += tables[field].shape[1]
    return rows


def _rows(table: Tensor | PackedTable, codes: Tensor) -> Tensor:
    return table.rows(codes) if isinstance(table, PackedTable) else table[codes.long()]


def _gather(table: Tensor | PackedTable, codes: Tensor, rows: Tensor, column: int) -> None:
    """Write the rows of codes to the columns of ``rows`` from ``column`` on."""
    work = len(codes) * table.shape[1]
    if not isinstance(table, PackedTable):
        run_kernel(gather_rows, *as_arrays(table, codes, rows), column, work=work)
    elif table.scales is not None:
        run_kernel(gather_scaled_rows, *as_arrays(table.values, table.scales, codes, rows), column, work=work)
    else:
        bits, code_array, target = as_arrays(table.values.view(torch.int16), codes, rows)
        conversion = _CONVERSION[table.values.dtype]
        run_kernel(gather_half_rows, bits.view(np.uint16), *conversion, code_array, target, column, work=work)
