"""Histories as slices of the behaviour log: which slices a batch needs, and their codes."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.ops.bounds import check_slices
from deep_interest.ops.jagged import Jagged, SharedSegments
from deep_interest.ops.kernels.histories import copy_slices, find_slices
from deep_interest.ops.runtime.dispatch import as_arrays
from deep_interest.ops.runtime.engine import current_engine
from deep_interest.ops.runtime.host_copies import host_values
from deep_interest.ops.runtime.parallel import run_kernel


class HistorySlices(NamedTuple):
    """Slices of the log for `gather_slices`, and the samples that they belong to.

    Attributes:
        starts: ``(H,)`` int64 first position of each slice in the log.
        offsets: ``(H + 1,)`` int64 segments of the slices once they are concatenated.
        owner: ``(B,)`` int64 slice of each sample; None if every sample has a slice of its own.
    """

    starts: np.ndarray
    offsets: np.ndarray
    owner: np.ndarray | None


def history_slices(
    samples: Tensor,
    users: Tensor,
    ends: Tensor,
    offsets: Tensor,
    *,
    max_len: int,
    times: Tensor | None = None,
    begins: Tensor | None = None,
) -> HistorySlices:
    """Find the newest behaviours before each sample; neighbouring samples with the same user, begin and end share a slice.

    All tensors are on the CPU, where the sizes of the slices are needed.

    Args:
        samples: ``(B,)`` int64 indices of samples.
        users: ``(n,)`` int32 user of every sample.
        ends: ``(n,)`` int32 number of the user's behaviours before every sample.
        offsets: ``(U + 1,)`` int64 segments of the users' behaviours in the log.
        max_len: most behaviours of a slice.
        times: ``(n,)`` int64 time of every sample, if samples that share a slice must have the same time; otherwise None.
        begins: ``(n,)`` int32 number of the user's behaviours that are too old for every sample; None for 0.

    Raises:
        InputError: a sample, a user or a number of behaviours is out of range.
    """
    sample_times = np.empty(0, np.int64) if times is None else host_values(times)
    sample_begins = np.empty(0, np.int32) if begins is None else host_values(begins)
    if current_engine() == "plain":
        return _plain_history_slices(samples, users, ends, sample_begins, sample_times, offsets, max_len)
    starts, slice_offsets, owner = (np.empty(len(samples) + extra, np.int64) for extra in (0, 1, 0))
    indices, sample_users, sample_ends, bounds = as_arrays(samples, users, ends, offsets)
    count = find_slices(
        indices,
        sample_users,
        sample_ends,
        sample_begins,
        sample_times,
        bounds,
        max_len,
        starts,
        slice_offsets,
        owner,
    )
    if count < 0:
        raise InputError(_out_of_range(int(samples[-1 - count]), users, ends, offsets))
    return HistorySlices(starts[:count], slice_offsets[: count + 1], None if count == len(samples) else owner)


def _plain_history_slices(
    samples: Tensor, users: Tensor, ends: Tensor, begins: np.ndarray, times: np.ndarray, offsets: Tensor, max_len: int
) -> HistorySlices:  # fmt: skip
    """Compute `history_slices` with NumPy operations."""
    indices, sample_users, sample_ends, bounds = as_arrays(samples, users, ends, offsets)
    in_range = _are_in_range(indices, sample_users, sample_ends, bounds)
    if not in_range.all():
        raise InputError(_out_of_range(int(indices[in_range.argmin()]), users, ends, offsets))
    user, end = sample_users[indices], sample_ends[indices].astype(np.int64)
    is_first = np.ones(len(indices), bool)  # of its slice
    is_first[1:] = (user[1:] != user[:-1]) | (end[1:] != end[:-1])
    if len(times):
        is_first[1:] |= times[indices][1:] != times[indices][:-1]
    lengths = end
    if len(begins):
        begin = begins[indices].astype(np.int64)
        is_first[1:] |= begin[1:] != begin[:-1]
        lengths = np.maximum(end - begin, 0)
    lengths = np.minimum(lengths, max_len)[is_first]
    starts = (bounds[user] + end)[is_first] - lengths
    owner = None if is_first.all() else is_first.cumsum() - 1
    return HistorySlices(starts, np.append(0, lengths.cumsum()), owner)


def _are_in_range(samples: np.ndarray, users: np.ndarray, ends: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Check that each sample exists, its user is in the log, and its user has as many behaviours. Shape: ``(B,)``."""
    in_range = (samples >= 0) & (samples < min(len(users), len(ends)))
    user, end = users[samples[in_range]], ends[samples[in_range]]
    has_user = (user >= 0) & (user < len(bounds) - 1)
    behaviors = np.diff(bounds[np.stack([user[has_user], user[has_user] + 1])], axis=0)[0]
    has_user[has_user] = (end[has_user] >= 0) & (end[has_user] <= behaviors)
    in_range[in_range] = has_user
    return in_range


def _out_of_range(sample: int, users: Tensor, ends: Tensor, offsets: Tensor) -> str:
    """Describe what is out of range in a sample."""
    if not 0 <= sample < min(len(users), len(ends)):
        return f"rows: sample {sample} is outside the {min(len(users), len(ends))} samples"
    user, end, user_count = int(users[sample]), int(ends[sample]), len(offsets) - 1
    if not 0 <= user < user_count:
        return f"user: code {user} of sample {sample} is outside the log of {user_count} users"
    behaviors = int(offsets[user + 1] - offsets[user])
    return f"history_end: sample {sample} has {end} behaviours before it, but user {user} has {behaviors} in the log"


def gather_slices(fields: Mapping[str, Tensor], starts: Tensor, jagged: Jagged) -> dict[str, Tensor]:
    """Concatenate slices of the log.

    Args:
        fields: ``{field: (M,)}`` int32 codes, or int64 times.
        starts: ``(B,)`` int64 first position of each slice in the log.
        jagged: segments of the slices in the result.

    Returns:
        ``{field: (N,)}``.

    Raises:
        InputError: a slice is outside the log.
    """
    if fields:
        rows = min(len(codes) for codes in fields.values())
        check_slices(host_values(starts), jagged.host_offsets, rows, "slices of the log")
    if starts.device.type == "cpu" and current_engine() == "compiled":
        slices = {name: codes.new_empty(jagged.total) for name, codes in fields.items()}
        for name, codes in fields.items():
            arrays = as_arrays(codes, starts, jagged.offsets, slices[name])
            run_kernel(copy_slices, *arrays, work=jagged.total)
        return slices
    return plain_gather_slices(fields, starts, jagged)


def plain_gather_slices(fields: Mapping[str, Tensor], starts: Tensor, jagged: Jagged) -> dict[str, Tensor]:
    """Compute `gather_slices` with torch operations, for any device."""
    positions = SharedSegments(jagged.offsets, starts).positions
    return {name: codes[positions] for name, codes in fields.items()}
