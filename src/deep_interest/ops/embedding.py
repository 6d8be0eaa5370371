"""Embedding lookup with row-sparse gradients."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.errors import InputError
from deep_interest.ops.bounds import check_codes
from deep_interest.ops.gradients import GradientAccumulator, SparseGrad
from deep_interest.ops.kernels.embedding import gather_rows
from deep_interest.ops.packed_tables import PackedTable, look_up_packed
from deep_interest.ops.row_source import RowSource
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty_rows
from deep_interest.ops.runtime.parallel import run_kernel


def lookup(
    tables: Sequence[Tensor | PackedTable | RowSource],
    groups: Sequence[Mapping[int, Tensor]],
    *,
    names: Sequence[str] | None = None,
    accumulator: GradientAccumulator | None = None,
) -> list[Tensor]:
    """Look up rows of tables for several groups of codes at once.

    Codes on the CPU are checked. Codes on a GPU are not, since the host would have to wait for them: they come from a
    `training.data.FeatureStore` or a `serving.scorer.Scorer`, which check them on the host.

    Args:
        tables: ``(R_f, D_f)`` of each field f; packed ones have no gradients. Row sources are not mixed with other tables.
        groups: ``{f: codes (n,)}`` of each group.
        names: names of the fields in error messages; their indices if None.
        accumulator: where to add the gradients of the tables; None for sparse gradients that are returned to autograd.

    Returns:
        For each group the rows of its fields, concatenated: ``(n, Σ D_f)``.

    Raises:
        InputError: a code is outside its table, or the fields of a group have different numbers of codes.
    """
    _check_codes(tables, groups, names or [f"table {field}" for field in range(len(tables))])
    sources = [table for table in tables if isinstance(table, RowSource)]
    if sources:
        return sources[0].look_up(sources, groups, accumulator)
    tensors = [table for table in tables if isinstance(table, Tensor)]
    if len(tensors) < len(tables):
        return look_up_packed([table for table in tables if not isinstance(table, RowSource)], groups)
    if can_use_compiled(*tensors):
        fields = [list(group) for group in groups]
        codes = [group[field] for group in groups for field in group]
        return list(_Lookup.apply(fields, len(tensors), accumulator, *tensors, *codes))
    rows = {}  # one lookup per field for all groups: sparse gradients are never added to each other
    for field in {field: None for group in groups for field in group}:
        codes = [group[field] for group in groups if field in group]
        found = F.embedding(torch.cat(codes), tensors[field], sparse=True)
        rows[field] = iter(found.split([len(code) for code in codes]))
    return [torch.cat([next(rows[field]) for field in group], dim=1) for group in groups]


def _check_codes(
    tables: Sequence[Tensor | PackedTable | RowSource],
    groups: Sequence[Mapping[int, Tensor]],
    names: Sequence[str],
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
    def forward(
        ctx, fields: list[list[int]], count: int, accumulator: GradientAccumulator | None, *tables_and_codes: Tensor
    ) -> tuple[Tensor, ...]:  # fmt: skip
        tables, codes = tables_and_codes[:count], iter(tables_and_codes[count:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tables_and_codes)
        ctx.fields, ctx.accumulator = fields, accumulator
        results = []
        for group in fields:
            group_codes = [next(codes) for _ in group]
            widths = [tables[field].shape[1] for field in group]
            rows = empty_rows(len(group_codes[0]), sum(widths), tables[0])
            for field, code, column in zip(group, group_codes, _first_columns(widths), strict=True):
                work = len(code) * tables[field].shape[1]
                run_kernel(gather_rows, *as_arrays(tables[field], code, rows), column, work=work)
            results.append(rows)
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grad_outputs: Tensor | None):
        count = len(ctx.saved_tensors) - sum(map(len, ctx.fields))
        tables, codes = ctx.saved_tensors[:count], iter(ctx.saved_tensors[count:])
        grads: list[list[SparseGrad]] = [[] for _ in tables]
        for group, grad_output in zip(ctx.fields, grad_outputs, strict=True):
            columns = _first_columns([tables[field].shape[1] for field in group])
            for field, column in zip(group, columns, strict=True):
                code = next(codes)
                if grad_output is not None:
                    grads[field].append(SparseGrad(code, grad_output, column))
        no_grads = [None] * (len(ctx.saved_tensors) - count)
        if ctx.accumulator is None:
            return None, None, None, *map(_sparse_tensor, tables, grads), *no_grads
        for table, table_grads in zip(tables, grads, strict=True):
            ctx.accumulator.add(table, table_grads)
        return None, None, None, *[None] * count, *no_grads


def _sparse_tensor(table: Tensor, grads: Sequence[SparseGrad]) -> Tensor | None:
    """Return gradients as one sparse tensor that is not coalesced, as `torch.nn.Embedding` does."""
    if not grads:
        return None
    rows = torch.cat([each.codes for each in grads]).long()
    values = torch.cat([each.gradient[:, each.column : each.column + table.shape[1]] for each in grads])
    return torch.sparse_coo_tensor(rows.unsqueeze(0), values, table.shape, check_invariants=False)


def _first_columns(widths: Sequence[int]) -> list[int]:
    """Return the first column of each field."""
    return [0, *accumulate(widths[:-1])]
