"""BehaviorLog: the behaviours of all users, stored once; a history is a slice of the log."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class BehaviorLog:
    """All behaviours in compressed sparse rows, sorted by user and time.

    Attributes:
        offsets: ``(U + 1,)`` int64; the behaviours of user code ``u`` are ``[offsets[u], offsets[u + 1])``. Code 0, the
            unknown user, has none.
        fields: ``{field: (N,) int32 codes}``, one array per behaviour field (item_id, category, shop, rating, …).
        times: ``(N,)`` int64 time of each behaviour, if the time since a behaviour is a feature; otherwise None.
        negatives: ``(N,)`` int32 code of an item that was shown and not clicked before each behaviour, 0 for none; None if negatives
            are sampled.
        sequences: logs of further sequences of behaviours, by name.
    """

    offsets: np.ndarray
    fields: dict[str, np.ndarray]
    times: np.ndarray | None = None
    negatives: np.ndarray | None = None
    sequences: dict[str, "BehaviorLog"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.times is None or len(self.times) == self.behaviors
        for name, codes in self.fields.items():
            assert len(codes) == self.behaviors, f"{name}: {len(codes)} codes for {self.behaviors} behaviours"

    @property
    def behaviors(self) -> int:
        """Number of behaviours, N."""
        return int(self.offsets[-1])

    @property
    def users(self) -> int:
        """Number of user codes, including the unknown user, U."""
        return len(self.offsets) - 1

    def history(self, user: int, history_end: int, *, max_len: int) -> dict[str, np.ndarray]:
        """Return the last ``max_len`` of the user's first ``history_end`` behaviours, oldest first.

        Args:
            user: user code.
            history_end: number of the user's behaviours before the event.
            max_len: maximum length; the newest behaviours are kept.
        """
        start = int(self.offsets[user])
        window = slice(max(start, start + history_end - max_len), start + history_end)
        return {name: codes[window] for name, codes in self.fields.items()}


def run_offsets(users: np.ndarray, user_codes: int) -> np.ndarray:
    """Return the offsets ``(user_codes + 1,)`` of the segments of a sorted array of user codes ``(N,)``."""
    counts = np.bincount(users, minlength=user_codes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
