"""BehaviorLog: every user's behaviours, stored once; a history is a slice of it, never a copy."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BehaviorLog:
    """All behaviours in compressed sparse rows, sorted by user and time.

    Attributes:
        offsets: ``(U + 1,)`` int64; the run of user code ``u`` is ``[offsets[u], offsets[u + 1])``. Code 0, the
            unknown user, has an empty run.
        fields: ``{field: (N,) int32 codes}``, one array per behaviour field (item_id, category, shop, …).
    """

    offsets: np.ndarray
    fields: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        for name, codes in self.fields.items():
            assert len(codes) == self.behaviors, f"{name}: {len(codes)} codes for {self.behaviors} behaviours"

    @property
    def behaviors(self) -> int:
        return int(self.offsets[-1])

    @property
    def users(self) -> int:
        """The number of user codes, "unknown" included."""
        return len(self.offsets) - 1

    def history(self, user: int, history_end: int, *, max_len: int) -> dict[str, np.ndarray]:
        """The last ``max_len`` of the user's first ``history_end`` behaviours, oldest first.

        Args:
            user: user code.
            history_end: how many of the user's behaviours lie before the event.
            max_len: the window; the oldest behaviours are cut.
        """
        start = int(self.offsets[user])
        window = slice(max(start, start + history_end - max_len), start + history_end)
        return {name: codes[window] for name, codes in self.fields.items()}


def run_offsets(users: np.ndarray, user_codes: int) -> np.ndarray:
    """Offsets ``(user_codes + 1,)`` of the runs in a sorted array of user codes ``(N,)``."""
    counts = np.bincount(users, minlength=user_codes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
