"""Which part of a user's behaviours a sample sees: those strictly before its time, and not older than a number of days."""

from dataclasses import dataclass, replace

import numpy as np

from deep_interest.logs.encoded_log import EncodedLog


@dataclass(frozen=True)
class Calendar:
    """How days follow from times where the source has none.

    Attributes:
        day_seconds, day_offset: see `protocol_parameters.ProtocolParameters`.
    """

    day_seconds: int
    day_offset: int = 0

    def days(self, time: np.ndarray) -> np.ndarray:
        """Return the day of each time, ``(n,)``."""
        return (time + self.day_offset) // self.day_seconds

    def with_days(self, log: EncodedLog) -> EncodedLog:
        """Return the log with days: those of the source, or those of the times."""
        return log if log.day is not None else replace(log, day=self.days(log.time).astype(np.int32))


def history_ends(log: EncodedLog, user: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Count the behaviours of each row's user strictly before the row's time: ``(n,)`` int32.

    Args:
        log: encoded behaviours, sorted by user and time.
        user: ``(n,)`` user codes.
        time: ``(n,)`` int64.
    """
    low = min(int(time.min(initial=0)), int(log.time.min(initial=0)))
    span = max(int(time.max(initial=0)), int(log.time.max(initial=0))) - low + 1
    log_time, own_time = log.time - low, time - low
    if span * len(log.users) >= 2**63:
        stamps = np.unique(log_time)
        log_time, own_time, span = (
            np.searchsorted(stamps, log_time),
            np.searchsorted(stamps, own_time),
            len(stamps) + 1,
        )
    before = np.searchsorted(
        log.user * np.int64(span) + log_time, user * np.int64(span) + own_time, side="left"
    )
    return np.where(user > 0, before - log.offsets[user], 0).astype(np.int32)


def history_begins(
    log: EncodedLog, user: np.ndarray, day: np.ndarray, history_days: int | None
) -> np.ndarray:
    """Count the behaviours of each row's user that are more than some days before the row's day: ``(n,)`` int32.

    Args:
        log: encoded behaviours with days, sorted by user and time.
        user: ``(n,)`` user codes.
        day: ``(n,)`` days.
        history_days: number of days before the row's day whose behaviours are seen, and those of the day itself; None for all.
    """
    if history_days is None:
        return np.zeros(len(user), np.int32)
    assert log.day is not None
    return history_ends(
        replace(log, time=log.day.astype(np.int64)), user, day.astype(np.int64) - history_days
    )
