"""Rows of embedding tables side by side, and histories as slices of the log: what a batch is gathered from."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.errors import InputError
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.gradients import SparseGrad, accumulate_grads, coalesce_parts, is_adding
from deep_interest.ops.kernels.embedding import gather_rows
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty_rows
from deep_interest.ops.runtime.parallel import run_kernel


def lookup(
    tables: Sequence[Tensor], groups: Sequence[Mapping[int, Tensor]], *, names: Sequence[str] | None = None
) -> list[Tensor]:
    """Rows of tables, for several groups of codes at once; the gradients of the tables are sparse.

    Codes on the CPU are checked. Those on a GPU are not, for the host would have to wait for them: they come from a
    `training.data.FeatureStore` or a `serving.scorer.Scorer`, which check them on the host.

    Args:
        tables: ``(R_f, D_f)`` of each field f.
        groups: of each one ``{f: codes (n,)}``.
        names: of the fields, for error messages; their indices if None.

    Returns:
        For each group the rows of its fields, side by side: ``(n, Σ D_f)``.

    Raises:
        InputError: a code is outside its table, or the fields of a group differ in their number of codes.
    """
    _check_codes(tables, groups, names or [f"table {field}" for field in range(len(tables))])
    if can_use_compiled(*tables):
        fields = [list(group) for group in groups]
        codes = [group[field] for group in groups for field in group]
        return list(_Lookup.apply(fields, len(tables), *tables, *codes))
    rows = {}  # of each field for all groups at once: a table's gradient is one piece, which none is added to
    for field in {field: None for group in groups for field in group}:
        codes = [group[field] for group in groups if field in group]
        found = F.embedding(torch.cat(codes), tables[field], sparse=True)
        rows[field] = iter(found.split([len(code) for code in codes]))
    return [torch.cat([next(rows[field]) for field in group], dim=1) for group in groups]


def _check_codes(
    tables: Sequence[Tensor], groups: Sequence[Mapping[int, Tensor]], names: Sequence[str]
) -> None:
    for group in groups:
        lengths = {codes.shape[0] for codes in group.values()}
        if len(lengths) > 1:
            found = ", ".join(f"{names[field]} {len(codes)}" for field, codes in group.items())
            raise InputError(f"expected as many codes in every field of a group, found {found}")
        for field, codes in group.items():
            if codes.is_cpu:
                check_codes(codes.numpy(), tables[field].shape[0], names[field])


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fields: list[list[int]], count: int, *tables_and_codes: Tensor) -> tuple[Tensor, ...]:
        tables, codes = tables_and_codes[:count], tables_and_codes[count:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tables_and_codes)
        ctx.fields = fields
        left, found = iter(codes), []
        for group in fields:
            taken = [next(left) for _ in group]
            widths = [tables[field].shape[1] for field in group]
            rows = empty_rows(len(taken[0]), sum(widths), tables[0])
            for field, code, column in zip(group, taken, _starts(widths), strict=True):
                run_kernel(
                    gather_rows,
                    *as_arrays(tables[field], code, rows),
                    column,
                    work=len(code) * tables[field].shape[1],
                )
            found.append(rows)
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor | None):
        count = len(ctx.saved_tensors) - sum(map(len, ctx.fields))
        tables, codes = ctx.saved_tensors[:count], iter(ctx.saved_tensors[count:])
        pieces: list[list[SparseGrad]] = [[] for _ in tables]
        for group, gradient in zip(ctx.fields, gradients, strict=True):
            starts = _starts([tables[field].shape[1] for field in group])
            for field, column in zip(group, starts, strict=True):
                code = next(codes)
                if gradient is not None:
                    pieces[field].append(SparseGrad(code, gradient, column))
        return None, None, *map(_gradient, tables, pieces), *[None] * (len(ctx.saved_tensors) - count)


def _gradient(table: Tensor, pieces: list[SparseGrad]) -> Tensor | None:
    """What backward returns for a table: nothing where the pieces are handed in."""
    if not pieces:
        return None
    if is_adding():
        return accumulate_grads(table, pieces)
    rows, values, _ = coalesce_parts(table, pieces)
    return torch.sparse_coo_tensor(rows.unsqueeze(0), values, table.shape, check_invariants=False)


def _starts(widths: Sequence[int]) -> list[int]:
    """The first column of each part."""
    return [0, *accumulate(widths[:-1])]
