"""Sums of the behaviours that share a hash bucket with the candidate (SDIM, Cao et al. 2022)."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.ops.bounds import check_codes
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.buckets import (
    RESIDUES,
    bucket_sums_backward,
    bucket_sums_forward,
    group_by_residue,
    number_codes,
)
from deep_interest.ops.runtime.dispatch import as_arrays, can_use_compiled
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.memory import empty, empty_rows
from deep_interest.ops.runtime.parallel import run_kernel
from deep_interest.ops.segments import plain_segment_sum

_ROWS_PER_CODE = 8  # of a table, up to which the codes are numbered in a scratch buffer of the table's length


class Distinct(NamedTuple):
    """The different codes among some codes.

    Attributes:
        codes: ``(U,)`` int64, all different.
        inverse: ``(N,)`` int64 position of each code in ``codes``.
    """

    codes: Tensor
    inverse: Tensor


def distinct(codes: Tensor, size: int, field: str) -> Distinct:
    """Number the different codes of a field. On a GPU the host waits for their number.

    Args:
        codes: ``(N,)`` integers.
        size: number of rows of the field's table.
        field: name of the field, for the error message.

    Raises:
        InputError: a code on the CPU is outside the table.
    """
    if codes.is_cpu:
        check_codes(codes.numpy(), size, field)
    if codes.is_cpu and current_engine() == "compiled" and size <= _ROWS_PER_CODE * len(codes):
        rows, index = np.empty(min(len(codes), size), np.int64), np.empty(len(codes), np.int64)
        count = number_codes(*as_arrays(codes), np.full(size, -1, np.int32), rows, index)
        return Distinct(torch.from_numpy(rows[:count]), torch.from_numpy(index))
    found, index = torch.unique(codes, return_inverse=True)
    return Distinct(found.long(), index)


class Hashing(NamedTuple):
    """Buckets of several rounds of hashing, in one word per vector.

    Attributes:
        rounds: number of rounds, R.
        bits: number of bits of a bucket; round r has the bits ``[r bits, (r + 1) bits)``.
    """

    rounds: int
    bits: int


def bucket_sums(
    values: Tensor, index: Tensor, hashes: tuple[Tensor, Tensor], jagged: Jagged, hashing: Hashing
) -> Tensor:
    """Sum, in each round of hashing, the values of a segment whose bucket is that of the segment's query.

    Args:
        values: ``(U, D)``.
        index: ``(N,)`` int64 row of each behaviour in ``values``.
        hashes: fingerprints of the behaviours ``(N,)`` and of the queries ``(B,)``, int64.
        jagged: B segments of the behaviours, or shared segments.
        hashing: how buckets are stored in the fingerprints.

    Returns:
        ``(B, R, D)``; 0 where no value is in the bucket.
    """
    if can_use_compiled(values):
        starts = jagged.starts if isinstance(jagged, SharedSegments) else jagged.offsets[:-1]
        return _BucketSums.apply(values, index, *hashes, jagged.offsets, starts, jagged.total, hashing)
    fingerprints, queries = hashes
    if isinstance(jagged, SharedSegments):
        index, fingerprints = index[jagged.positions], fingerprints[jagged.positions]
    differing = fingerprints ^ queries[jagged.segments]
    rows, bucket = values.index_select(0, index), (1 << hashing.bits) - 1
    sums = []
    for r in range(hashing.rounds):
        is_equal = ((differing >> (r * hashing.bits)) & bucket) == 0
        sums.append(plain_segment_sum(rows * is_equal.unsqueeze(1), jagged))
    return torch.stack(sums, dim=1)


class _BucketSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, values, index, fingerprints, queries, offsets, starts, total: int, hashing: Hashing
    ) -> Tensor:
        sums = empty(values, len(queries), hashing.rounds, values.shape[1])
        arguments = _arguments(index, fingerprints, queries, offsets, starts, hashing)
        work = total * values.shape[1]
        run_kernel(bucket_sums_forward, *as_arrays(values), *arguments, *as_arrays(sums), work=work)
        ctx.save_for_backward(index, fingerprints, queries, offsets, starts)
        ctx.rows, ctx.work, ctx.hashing = len(values), work, hashing
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        grad_values = empty_rows(ctx.rows, grad_output.shape[2], grad_output)
        index, fingerprints, queries, offsets, starts = ctx.saved_tensors
        index, *arguments = _arguments(index, fingerprints, queries, offsets, starts, ctx.hashing)
        order, groups = np.empty(len(index), np.int64), np.empty(RESIDUES + 2, np.int64)
        group_by_residue(index, order, groups)
        grouped = index, order, groups
        run_kernel(
            bucket_sums_backward, *as_arrays(grad_output), grouped, *arguments, *as_arrays(grad_values), work=ctx.work
        )  # fmt: skip
        return grad_values, None, None, None, None, None, None, None


def _arguments(
    index: Tensor, fingerprints: Tensor, queries: Tensor, offsets: Tensor, starts: Tensor, hashing: Hashing
) -> tuple:
    """Return the arguments of the kernels from ``index`` to ``segments``."""
    words = [array.view(np.uint64) for array in as_arrays(fingerprints, queries)]
    firsts = sum(1 << (r * hashing.bits) for r in range(hashing.rounds))
    return *as_arrays(index), *words, (hashing.bits, np.uint64(firsts)), tuple(as_arrays(offsets, starts))
