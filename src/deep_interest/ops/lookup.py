"""Rows of embedding tables side by side, and histories as slices of the log: what a batch is gathered from."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.compiled import arrays, compiled, fits, run, share


def lookup(tables: Sequence[Tensor], codes: Sequence[Tensor]) -> Tensor:
    """The rows of each table, concatenated; the gradients of the tables are sparse.

    Shape: ``tables (R_f, D_f)`` and ``codes (n,)`` of each field f -> ``(n, Σ D_f)``.
    """
    if fits(*tables):
        return _Lookup.apply(len(tables), *tables, *codes)
    rows = [F.embedding(code, table, sparse=True) for table, code in zip(tables, codes, strict=True)]
    return torch.cat(rows, dim=-1)


def windows(
    fields: Mapping[str, Tensor], starts: Tensor, lengths: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """Slices of the log side by side.

    Args:
        fields: ``{field: (M,)}`` int32 codes.
        starts, lengths: ``(B,)`` int64 of each slice.

    Returns:
        ``{field: (N,)}`` and the slices' ``offsets (B + 1,)``.
    """
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    if starts.device.type == "cpu":
        total = int(offsets[-1])
        slices = {name: codes.new_empty(total) for name, codes in fields.items()}
        for name, codes in fields.items():
            run(_copy, *arrays(codes, starts, offsets, slices[name]), work=total)
        return slices, offsets
    segments = torch.repeat_interleave(lengths)
    places = (starts - offsets[:-1])[segments] + torch.arange(len(segments), device=starts.device)
    return {name: codes[places] for name, codes in fields.items()}, offsets


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, count: int, *tables_and_codes: Tensor) -> Tensor:
        tables, codes = tables_and_codes[:count], tables_and_codes[count:]
        ctx.save_for_backward(*codes)
        ctx.shapes = [table.shape for table in tables]
        rows = tables[0].new_empty(len(codes[0]), sum(table.shape[1] for table in tables))
        column = 0
        for table, code in zip(tables, codes, strict=True):
            run(_take, *arrays(table, code, rows), column, work=len(code) * table.shape[1])
            column += table.shape[1]
        return rows

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        parts = grad.split(
            [shape[1] for shape in ctx.shapes], dim=1
        )  # views, which sparse tensors cannot hold
        gradients = [
            torch.sparse_coo_tensor(
                code.long().unsqueeze(0), part.clone(memory_format=torch.contiguous_format), shape, check_invariants=False
            )
            for code, part, shape in zip(ctx.saved_tensors, parts, ctx.shapes, strict=True)
        ]  # fmt: skip
        return None, *gradients, *[None] * len(gradients)


@compiled
def _take(table, codes, rows, column, part, parts):
    first, last = share(len(codes), part, parts)
    width = table.shape[1]
    for i in range(first, last):
        row, out = table[codes[i]], rows[i]
        for j in range(width):
            out[column + j] = row[j]


@compiled
def _copy(codes, starts, offsets, slices, part, parts):
    first, last = share(len(starts), part, parts)
    for b in range(first, last):
        begin, shift = offsets[b], starts[b] - offsets[b]
        for p in range(begin, offsets[b + 1]):
            slices[p] = codes[p + shift]
