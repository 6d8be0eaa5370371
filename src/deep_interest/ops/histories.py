"""Rows of embedding tables side by side, and histories as slices of the log: what a batch is gathered from."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.ops.bounds import check_slices
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.histories import copy_slices, newest_slices
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.host_copies import host_values
from deep_interest.ops.runtime.parallel import run_kernel


class HistorySlices(NamedTuple):
    """Slices of the log as `windows` takes them, and what they are for.

    Attributes:
        starts: ``(H,)`` int64, where each begins in the log.
        offsets: ``(H + 1,)`` int64, where they begin side by side.
        owner: ``(B,)`` int64, the slice of each sample; None if each has its own.
    """

    starts: np.ndarray
    offsets: np.ndarray
    owner: np.ndarray | None


def history_slices(
    rows: Tensor, users: Tensor, ends: Tensor, offsets: Tensor, *, max_len: int
) -> HistorySlices:
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
    if current_engine() == "plain":
        return _plain_history_slices(rows, users, ends, offsets, max_len)
    starts, slices, owner = (np.empty(len(rows) + more, np.int64) for more in (0, 1, 0))
    found = newest_slices(*as_arrays(rows, users, ends, offsets), max_len, starts, slices, owner)
    if found < 0:
        raise InputError(_out_of_range(int(rows[-1 - found]), users, ends, offsets))
    return HistorySlices(starts[:found], slices[: found + 1], None if found == len(rows) else owner)


def _plain_history_slices(
    rows: Tensor, users: Tensor, ends: Tensor, offsets: Tensor, max_len: int
) -> HistorySlices:
    """As `history_slices`, in NumPy."""
    samples, sample_users, sample_ends, bounds = as_arrays(rows, users, ends, offsets)
    in_range = _are_in_range(samples, sample_users, sample_ends, bounds)
    if not in_range.all():
        raise InputError(_out_of_range(int(samples[in_range.argmin()]), users, ends, offsets))
    user, end = sample_users[samples], sample_ends[samples].astype(np.int64)
    first_of_slice = np.ones(len(samples), bool)
    first_of_slice[1:] = (user[1:] != user[:-1]) | (end[1:] != end[:-1])
    lengths = np.minimum(end, max_len)[first_of_slice]
    starts = (bounds[user] + end)[first_of_slice] - lengths
    owner = None if first_of_slice.all() else first_of_slice.cumsum() - 1
    return HistorySlices(starts, np.append(0, lengths.cumsum()), owner)


def _are_in_range(samples: np.ndarray, users: np.ndarray, ends: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Whether each sample exists, its user is in the log, and its user has as many behaviours. Shape: ``(B,)``."""
    in_range = (samples >= 0) & (samples < min(len(users), len(ends)))
    user, end = users[samples[in_range]], ends[samples[in_range]]
    known = (user >= 0) & (user < len(bounds) - 1)
    behaviors = np.diff(bounds[np.stack([user[known], user[known] + 1])], axis=0)[0]
    known[known] = (end[known] >= 0) & (end[known] <= behaviors)
    in_range[in_range] = known
    return in_range


def _out_of_range(row: int, users: Tensor, ends: Tensor, offsets: Tensor) -> str:
    """What is out of range in a sample."""
    if not 0 <= row < min(len(users), len(ends)):
        return f"rows: sample {row} is outside the {min(len(users), len(ends))} samples"
    user, end, known = int(users[row]), int(ends[row]), len(offsets) - 1
    if not 0 <= user < known:
        return f"user: code {user} of sample {row} is outside the log of {known} users"
    behaviors = int(offsets[user + 1] - offsets[user])
    return f"history_end: sample {row} has {end} behaviours before it, but user {user} has {behaviors} in the log"


def gather_slices(fields: Mapping[str, Tensor], starts: Tensor, runs: Jagged) -> dict[str, Tensor]:
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
        check_slices(host_values(starts), runs.on_host, rows, "slices of the log")
    if starts.device.type == "cpu" and current_engine() == "compiled":
        slices = {name: codes.new_empty(runs.total) for name, codes in fields.items()}
        for name, codes in fields.items():
            run_kernel(copy_slices, *as_arrays(codes, starts, runs.offsets, slices[name]), work=runs.total)
        return slices
    return plain_gather_slices(fields, starts, runs)


def plain_gather_slices(fields: Mapping[str, Tensor], starts: Tensor, runs: Jagged) -> dict[str, Tensor]:
    """As `windows`, in torch's operations, for any device."""
    places = SharedSegments(runs.offsets, starts).places
    return {name: codes[places] for name, codes in fields.items()}
