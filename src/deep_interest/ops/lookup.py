"""Rows of embedding tables side by side, and histories as slices of the log: what a batch is gathered from."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from deep_interest.errors import InputError
from deep_interest.ops.bounds import check_codes, check_slices
from deep_interest.ops.compiled import arrays, compiled, fits, room_for, run, share
from deep_interest.ops.gradients import is_adding
from deep_interest.ops.host import values_of
from deep_interest.ops.prefetch import AHEAD, fetch
from deep_interest.ops.rows import Piece, hand_in, merge
from deep_interest.ops.runs import Runs, Views


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
    _check(tables, groups, names or [f"table {field}" for field in range(len(tables))])
    if fits(*tables):
        fields = [list(group) for group in groups]
        codes = [group[field] for group in groups for field in group]
        return list(_Lookup.apply(fields, len(tables), *tables, *codes))
    rows = {}  # of each field for all groups at once: a table's gradient is one piece, which none is added to
    for field in {field: None for group in groups for field in group}:
        codes = [group[field] for group in groups if field in group]
        found = F.embedding(torch.cat(codes), tables[field], sparse=True)
        rows[field] = iter(found.split([len(code) for code in codes]))
    return [torch.cat([next(rows[field]) for field in group], dim=1) for group in groups]


def _check(tables: Sequence[Tensor], groups: Sequence[Mapping[int, Tensor]], names: Sequence[str]) -> None:
    for group in groups:
        lengths = {codes.shape[0] for codes in group.values()}
        if len(lengths) > 1:
            found = ", ".join(f"{names[field]} {len(codes)}" for field, codes in group.items())
            raise InputError(f"expected as many codes in every field of a group, found {found}")
        for field, codes in group.items():
            if codes.is_cpu:
                check_codes(codes.numpy(), tables[field].shape[0], names[field])


class Slices(NamedTuple):
    """Slices of the log as `windows` takes them, and what they are for.

    Attributes:
        starts: ``(H,)`` int64, where each begins in the log.
        offsets: ``(H + 1,)`` int64, where they begin side by side.
        owner: ``(B,)`` int64, the slice of each sample; None if each has its own.
    """

    starts: np.ndarray
    offsets: np.ndarray
    owner: np.ndarray | None


def latest(rows: Tensor, users: Tensor, ends: Tensor, offsets: Tensor, *, max_len: int) -> Slices:
    """The newest behaviours before each sample, as slices of the log; neighbours of one user and one end share theirs.

    On the host, where their sizes are wanted.

    Args:
        rows: ``(B,)`` int64, which samples; all on the CPU.
        users, ends: ``(n,)`` int32 of all samples: the user, and how many of his behaviours lie before.
        offsets: ``(U + 1,)`` int64 runs of the users' behaviours in the log.
        max_len: behaviours in a slice.

    Raises:
        InputError: a row, a user or a number of behaviours is out of range.
    """
    starts, slices, owner = (np.empty(len(rows) + more, np.int64) for more in (0, 1, 0))
    found = _latest(*arrays(rows, users, ends, offsets), max_len, starts, slices, owner)
    if found < 0:
        raise InputError(_outside(int(rows[-1 - found]), users, ends, offsets))
    return Slices(starts[:found], slices[: found + 1], None if found == len(rows) else owner)


def _outside(row: int, users: Tensor, ends: Tensor, offsets: Tensor) -> str:
    """What is out of range in a sample."""
    if not 0 <= row < min(len(users), len(ends)):
        return f"rows: sample {row} is outside the {min(len(users), len(ends))} samples"
    user, end, known = int(users[row]), int(ends[row]), len(offsets) - 1
    if not 0 <= user < known:
        return f"user: code {user} of sample {row} is outside the log of {known} users"
    behaviors = int(offsets[user + 1] - offsets[user])
    return f"history_end: sample {row} has {end} behaviours before it, but user {user} has {behaviors} in the log"


def windows(fields: Mapping[str, Tensor], starts: Tensor, runs: Runs) -> dict[str, Tensor]:
    """Slices of the log side by side.

    Args:
        fields: ``{field: (M,)}`` int32 codes.
        starts: ``(B,)`` int64, where each slice begins in the log.
        runs: the slices in the result.

    Returns:
        ``{field: (N,)}``.

    Raises:
        InputError: a slice is outside the log.
    """
    if fields:
        rows = min(len(codes) for codes in fields.values())
        check_slices(values_of(starts), runs.on_host, rows, "slices of the log")
    if starts.device.type == "cpu":
        slices = {name: codes.new_empty(runs.total) for name, codes in fields.items()}
        for name, codes in fields.items():
            run(_copy, *arrays(codes, starts, runs.offsets, slices[name]), work=runs.total)
        return slices
    return plain_windows(fields, starts, runs)


def plain_windows(fields: Mapping[str, Tensor], starts: Tensor, runs: Runs) -> dict[str, Tensor]:
    """As `windows`, in torch's operations, for any device."""
    places = Views(runs.offsets, starts).places
    return {name: codes[places] for name, codes in fields.items()}


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
            rows = room_for(len(taken[0]), sum(widths), tables[0])
            for field, code, column in zip(group, taken, _starts(widths), strict=True):
                run(
                    _take, *arrays(tables[field], code, rows), column, work=len(code) * tables[field].shape[1]
                )
            found.append(rows)
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor | None):
        count = len(ctx.saved_tensors) - sum(map(len, ctx.fields))
        tables, codes = ctx.saved_tensors[:count], iter(ctx.saved_tensors[count:])
        pieces: list[list[Piece]] = [[] for _ in tables]
        for group, gradient in zip(ctx.fields, gradients, strict=True):
            starts = _starts([tables[field].shape[1] for field in group])
            for field, column in zip(group, starts, strict=True):
                code = next(codes)
                if gradient is not None:
                    pieces[field].append(Piece(code, gradient, column))
        return None, None, *map(_gradient, tables, pieces), *[None] * (len(ctx.saved_tensors) - count)


def _gradient(table: Tensor, pieces: list[Piece]) -> Tensor | None:
    """What backward returns for a table: nothing where the pieces are handed in."""
    if not pieces:
        return None
    if is_adding():
        return hand_in(table, pieces)
    rows, values, _ = merge(table, pieces)
    return torch.sparse_coo_tensor(rows.unsqueeze(0), values, table.shape, check_invariants=False)


def _starts(widths: Sequence[int]) -> list[int]:
    """The first column of each part."""
    return [0, *accumulate(widths[:-1])]


@compiled
def _take(table, codes, rows, column, part, parts):
    first, last = share(len(codes), part, parts)
    width = table.shape[1]
    for i in range(first, last):
        if i + AHEAD < last:
            fetch(table, codes[i + AHEAD])
        row = table[codes[i]]
        out = rows[i, column : column + width]  # out[column + j] would not be vectorised
        for j in range(width):
            out[j] = row[j]


@compiled
def _latest(rows, users, ends, offsets, max_len, starts, slices, owner):
    """Fills what it is given; returns how many slices there are, or -1 - i where sample i is out of range."""
    found = slices[0] = 0
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            fetch(users, rows[i + AHEAD])
            fetch(ends, rows[i + AHEAD])
        if rows[i] < 0 or rows[i] >= min(len(users), len(ends)):
            return -1 - i
        user, end = users[rows[i]], ends[rows[i]]
        if user < 0 or user >= len(offsets) - 1 or end < 0 or end > offsets[user + 1] - offsets[user]:
            return -1 - i
        if i == 0 or user != users[rows[i - 1]] or end != ends[rows[i - 1]]:
            length = min(end, max_len)
            starts[found] = offsets[user] + end - length
            slices[found + 1] = slices[found] + length
            found += 1
        owner[i] = found - 1
    return found


@compiled
def _copy(codes, starts, offsets, slices, part, parts):
    first, last = share(len(starts), part, parts)
    for b in range(first, last):
        if b + AHEAD < last:
            fetch(codes, starts[b + AHEAD])
        begin, shift = offsets[b], starts[b] - offsets[b]
        for p in range(begin, offsets[b + 1]):
            slices[p] = codes[p + shift]
