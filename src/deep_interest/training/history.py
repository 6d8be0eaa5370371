"""Histories on a device: which slices of a log the samples see, and their codes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.schema import Field
from deep_interest.ops.histories import gather_slices, history_slices
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.runtime.host_copies import copy_to_device
from deep_interest.training.derived_fields import derived_codes
from deep_interest.training.tensors import all_on_host, as_tensor, as_tensors, on_host


@dataclass(frozen=True)
class LogTensors:
    """A behaviour log on a device.

    Attributes:
        offsets: ``(S + 1,)`` int64 segments of the behaviours: one for each user, or for each given history.
        fields: ``{field: (N,)}`` int32 codes of all behaviours.
        times: ``(N,)`` int64 time of each behaviour, if a field is the time since; otherwise None.
        negatives: ``(N,)`` int32 item code of an item that was shown and not clicked before each behaviour, 0 for none; None if
            all negatives are sampled.
    """

    offsets: Tensor
    fields: dict[str, Tensor]
    times: Tensor | None = None
    negatives: Tensor | None = None

    @classmethod
    def build(cls, log: BehaviorLog, device: torch.device) -> "LogTensors":
        """Move a log to the device."""
        return cls(
            as_tensor(log.offsets, device), as_tensors(log.fields, device),
            None if log.times is None else as_tensor(log.times, device),
            None if log.negatives is None else as_tensor(log.negatives, device),
        )  # fmt: skip

    @cached_property
    def on_host(self) -> "LogTensors":
        """A copy on the CPU."""
        return LogTensors(
            on_host(self.offsets), all_on_host(self.fields), None if self.times is None else on_host(self.times),
            None if self.negatives is None else on_host(self.negatives),
        )  # fmt: skip


@dataclass(frozen=True)
class HistoryRanges:
    """The part of a log that each of n samples sees: the newest ``max_len`` of its behaviours from ``begin`` to ``end``.

    Attributes:
        segment: ``(n,)`` int32 segment of the log.
        end: ``(n,)`` int32 number of behaviours of the segment before the event.
        begin: ``(n,)`` int32 number of behaviours of the segment that are too old; None for 0.
        time: ``(n,)`` int64 time of the event, if the time since a behaviour is a feature; otherwise None.
        max_len: maximum length of a history.
    """

    segment: Tensor
    end: Tensor
    begin: Tensor | None
    time: Tensor | None
    max_len: int

    def part(self, rows: slice) -> "HistoryRanges":
        """Return the ranges of some samples."""
        return replace(
            self, segment=self.segment[rows], end=self.end[rows], begin=None if self.begin is None else self.begin[rows],
            time=None if self.time is None else self.time[rows],
        )  # fmt: skip

    @cached_property
    def on_host(self) -> "HistoryRanges":
        """A copy on the CPU."""
        return replace(
            self, segment=on_host(self.segment), end=on_host(self.end),
            begin=None if self.begin is None else on_host(self.begin),
            time=None if self.time is None else on_host(self.time),
        )  # fmt: skip


class Histories(NamedTuple):
    """Histories of B samples.

    Attributes:
        codes: ``{field: (N,)}`` int32 codes of the behaviours.
        offsets: ``(H + 1,)`` int64 segments of the histories.
        owner: ``(B,)`` int64 history of each sample; None if every sample has its own.
        negatives: ``(N,)`` int32 item codes of items that were shown and not clicked, 0 for none; None if there are none.
    """

    codes: dict[str, Tensor]
    offsets: Tensor
    owner: Tensor | None
    negatives: Tensor | None


def gather_histories(
    log: LogTensors, ranges: HistoryRanges, fields: Sequence[Field], rows: Tensor
) -> Histories:
    """Gather the histories of some samples; neighbours with the same history share it.

    Args:
        log: the log.
        ranges: what each sample sees of it.
        fields: fields of the behaviours.
        rows: ``(B,)`` indices of the samples, on the CPU.
    """
    device, host = log.offsets.device, ranges.on_host
    slices = history_slices(
        rows,
        host.segment,
        host.end,
        log.on_host.offsets,
        max_len=ranges.max_len,
        times=host.time,
        begins=host.begin,
    )
    starts, offsets = copy_to_device(slices.starts, device), copy_to_device(slices.offsets, device)
    histories = Jagged(offsets)
    codes = gather_slices(
        {field.name: log.fields[field.name] for field in fields if not field.derived}, starts, histories
    )
    derived = {field.name: field.size for field in fields if field.derived}
    times = now = None
    if derived and log.times is not None and host.time is not None:
        times = gather_slices({"": log.times}, starts, histories)[""]
        first = rows if slices.owner is None else rows[np.flatnonzero(np.diff(slices.owner, prepend=-1))]
        now = copy_to_device(host.time[first].numpy(), device)
    codes |= derived_codes(derived, histories, times, now)
    negatives = None if log.negatives is None else gather_slices({"": log.negatives}, starts, histories)[""]
    owner = None if slices.owner is None else copy_to_device(slices.owner, device)
    return Histories({field.name: codes[field.name] for field in fields}, offsets, owner, negatives)
