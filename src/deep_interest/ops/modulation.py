"""Feature-wise modulation: multiply and shift rows by rows of small tables (Perez et al. 2018), and sums of such rows."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.gradients import GradientAccumulator, SparseGrad
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.kernels.modulation import (
    modulate_backward,
    modulate_forward,
    modulated_sum_backward,
    modulated_sum_forward,
)
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.memory import empty_rows
from deep_interest.ops.runtime.parallel import partition_count, run_kernel
from deep_interest.ops.segments import segment_sum


def modulate(
    values: Tensor,
    tables: Sequence[Tensor],
    codes: Sequence[Tensor],
    *,
    names: Sequence[str],
    appended: Tensor | None = None,
    accumulator: GradientAccumulator | None = None,
) -> Tensor:
    """Return ``[v ∘ (1 + Σ_f s_f) + Σ_f t_f; a]`` for each row v, with ``[s_f; t_f]`` the row of table f that its code names.

    Args:
        values: ``(N, W)``.
        tables: ``(R_f, 2 W)`` of each field f; small, as the backward pass sums a gradient for all their rows.
        codes: ``(N,)`` int32 of each field.
        names: names of the fields, for error messages.
        appended: ``(N, A)`` columns a to append; None for none.
        accumulator: where to add the gradients of the tables; None for dense gradients that are returned to autograd.

    Returns:
        ``(N, W + A)``.

    Raises:
        InputError: a code on the CPU is outside its table.
    """
    _check(tables, codes, names)
    if can_use_compiled(values, *tables):
        appended = values.new_empty(len(values), 0) if appended is None else appended
        return _Modulate.apply(accumulator, values, appended, torch.stack(list(codes)), *tables)
    sparse = accumulator is not None  # it takes the sparse gradients that autograd leaves
    rows = sum(
        F.embedding(field_codes, table, sparse=sparse)
        for field_codes, table in zip(codes, tables, strict=True)
    )
    scale, shift = torch.as_tensor(rows).chunk(2, dim=1)
    modulated = values + values * scale + shift
    return modulated if appended is None else torch.cat([modulated, appended], dim=1)


def modulated_sum(
    values: Tensor,
    tables: Sequence[Tensor],
    codes: Sequence[Tensor],
    segments: Jagged,
    *,
    names: Sequence[str],
    appended: Tensor | None = None,
    embeddings: Sequence[Tensor] = (),
    accumulator: GradientAccumulator | None = None,
) -> Tensor:
    """Return the sum of the rows of `modulate` in each segment, 0 for an empty one. Shape: ``-> (B, W + A + F D)``.

    Arguments and errors are those of `modulate`, and

    Args:
        embeddings: ``(R_f, D)`` of each field f, whose rows are summed after the modulated ones; none by default.

    The rows are never in memory.
    """
    if not can_use_compiled(values, *tables, *embeddings):
        found = [
            F.embedding(field_codes, table, sparse=accumulator is not None)
            for field_codes, table in zip(codes, embeddings, strict=bool(embeddings))
        ]
        parts = found if appended is None else [appended, *found]
        rows = modulate(
            values, tables, codes,
            names=names, appended=torch.cat(parts, dim=1) if parts else None, accumulator=accumulator,
        )  # fmt: skip
        return segment_sum(rows, segments)
    _check(tables, codes, names)
    appended = values.new_empty(len(values), 0) if appended is None else appended
    return _ModulatedSum.apply(
        accumulator,
        segments.offsets,
        values,
        appended,
        torch.stack(list(codes)),
        len(tables),
        *tables,
        *embeddings,
    )


def _check(tables: Sequence[Tensor], codes: Sequence[Tensor], names: Sequence[str]) -> None:
    for table, field_codes, name in zip(tables, codes, names, strict=True):
        if field_codes.is_cpu:
            check_codes(field_codes.numpy(), len(table), name)


class _Modulate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, accumulator: GradientAccumulator | None, values: Tensor, appended: Tensor, codes: Tensor, *tables: Tensor
    ) -> Tensor:  # fmt: skip
        rows, first_rows = _concatenated(tables)
        out = empty_rows(len(values), values.shape[1] + appended.shape[1], values)
        arrays = as_arrays(values, appended, rows, codes)
        run_kernel(modulate_forward, *arrays, first_rows, out.numpy(), work=out.numel())
        ctx.save_for_backward(values, rows, codes, *tables)
        ctx.first_rows, ctx.accumulator, ctx.appended = first_rows, accumulator, appended.shape[1]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out: Tensor):
        values, rows, codes, *tables = ctx.saved_tensors
        grad_values = empty_rows(len(values), values.shape[1], values)
        grad_appended = empty_rows(len(values), ctx.appended, values)
        work = 2 * grad_out.numel()
        sums = rows.new_empty(partition_count(work), *rows.shape)
        arrays = as_arrays(grad_out.contiguous(), values, rows, codes)
        outputs = as_arrays(grad_values, grad_appended, sums)
        run_kernel(modulate_backward, *arrays, ctx.first_rows, *outputs, work=work)
        grads = _grads_of_tables(ctx.accumulator, sums, tables, codes)
        return None, grad_values, grad_appended, None, *grads


class _ModulatedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, accumulator: GradientAccumulator | None, offsets: Tensor, values: Tensor, appended: Tensor, codes: Tensor,
        fields: int, *tables_and_embeddings: Tensor,
    ) -> Tensor:  # fmt: skip
        tables, embeddings = tables_and_embeddings[:fields], tables_and_embeddings[fields:]
        rows, first_rows = _concatenated(tables)
        embedded = torch.cat(embeddings) if embeddings else rows.new_empty(len(rows), 0)
        width = values.shape[1] + appended.shape[1] + fields * embedded.shape[1]
        out = empty_rows(len(offsets) - 1, width, values)
        arrays = as_arrays(values, appended, rows, embedded, codes)
        work = values.numel() + appended.numel()
        run_kernel(modulated_sum_forward, *arrays, first_rows, offsets.numpy(), out.numpy(), work=work)
        ctx.save_for_backward(offsets, values, rows, codes, *tables_and_embeddings)
        ctx.first_rows, ctx.accumulator, ctx.fields = first_rows, accumulator, fields
        ctx.appended, ctx.dim = appended.shape[1], embedded.shape[1]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out: Tensor):
        offsets, values, rows, codes, *tables = ctx.saved_tensors
        grad_values = empty_rows(len(values), values.shape[1], values)
        grad_appended = empty_rows(len(values), ctx.appended, values)
        work = 2 * (grad_values.numel() + grad_appended.numel())
        sums = rows.new_empty(partition_count(work), *rows.shape)
        sums_of_embeddings = rows.new_empty(len(sums), len(rows), ctx.dim)
        arrays = as_arrays(grad_out.contiguous(), values, rows, codes)
        outputs = as_arrays(grad_values, grad_appended, sums, sums_of_embeddings)
        run_kernel(modulated_sum_backward, *arrays, ctx.first_rows, offsets.numpy(), *outputs, work=work)
        grads = _grads_of_tables(ctx.accumulator, sums, tables[: ctx.fields], codes)
        if len(tables) > ctx.fields:
            grads += _grads_of_tables(ctx.accumulator, sums_of_embeddings, tables[ctx.fields :], codes)
        return None, None, grad_values, grad_appended, None, None, *grads


def _concatenated(tables: Sequence[Tensor]) -> tuple[Tensor, np.ndarray]:
    """Return the rows of all tables ``(R, 2 W)``, and the first row of each."""
    rows = torch.cat(list(tables)) if len(tables) > 1 else tables[0].detach()
    return rows, np.array([0, *accumulate(len(table) for table in tables[:-1])])


def _grads_of_tables(
    accumulator: GradientAccumulator | None, sums: Tensor, tables: Sequence[Tensor], codes: Tensor
) -> list[Tensor | None]:
    """Return the gradients of the tables from those of each partition, or add them to the accumulator."""
    total = sums.sum(0) if len(sums) > 1 else sums[0]
    grads = total.split([len(table) for table in tables])
    if accumulator is None:
        return list(grads)
    for table, grad, field_codes in zip(tables, grads, codes, strict=True):
        touched = torch.from_numpy(np.flatnonzero(np.bincount(field_codes.numpy(), minlength=len(table))))
        accumulator.add(table, [SparseGrad(touched, grad[touched])])
    return [None] * len(tables)
