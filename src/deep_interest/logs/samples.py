"""Samples of a log as columns, their splits, and what a training set contains."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.logs.encoded_log import EncodedLog

TRAIN, VALIDATION, TEST = range(3)
SPLITS = ("train", "validation", "test")


@dataclass
class Samples:
    """Samples as columns, before they become the canonical table; all arrays ``(n,)``.

    Attributes:
        user, item: int32 codes.
        label: int8 in {0, 1}.
        time: int64.
        history_end: int32 number of behaviours of the user, or of the given segment, before the event.
        split: int8 index into SPLITS.
        left_out: ``{reason: rows}`` of events that are not samples.
        given_segment: int32 segment of the log that has the history, if the source gives it; None if it is that of the user.
        history_begin: int32 number of behaviours of the user that are too old for the history; None for 0.
    """

    user: np.ndarray
    item: np.ndarray
    label: np.ndarray
    time: np.ndarray
    history_end: np.ndarray
    split: np.ndarray
    left_out: dict[str, int]
    given_segment: np.ndarray | None = None
    history_begin: np.ndarray | None = None

    @property
    def segment(self) -> np.ndarray:
        """Segment of the log that has the history of each sample."""
        return self.user if self.given_segment is None else self.given_segment

    def frame(self) -> pd.DataFrame:
        """Return the canonical ``samples`` table."""
        columns = ["user", "item", "label", "time", "history_end"]
        columns += [] if self.given_segment is None else ["segment"]
        columns += [] if self.history_begin is None else ["history_begin"]
        frame = pd.DataFrame({name: getattr(self, name) for name in columns}, copy=False)
        frame["split"] = pd.Categorical.from_codes(self.split, categories=list(SPLITS))
        return frame


def training_histories(log: EncodedLog, samples: Samples) -> np.ndarray:
    """Return which behaviours are part of the history of a training sample, before histories are truncated: ``(N,)`` bool."""
    train = samples.split == TRAIN
    longest = np.zeros(len(log.length), np.int32)
    np.maximum.at(longest, samples.segment[train], samples.history_end[train])
    return np.arange(len(log.user)) < np.repeat(log.offsets[:-1] + longest, log.length)


def known_to_training(
    log: EncodedLog, samples: Samples, in_history: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the known items ``(I + 1,)`` and users ``(U + 1,)``, bool by code, before histories are truncated.

    An item is known if it is the candidate of a training sample or part of the history of one; both train its embedding
    row. A user is known if they have a training sample. Code 0 is never known.

    Args:
        log: encoded log.
        samples: samples of all splits.
        in_history: what `training_histories` returns, if it is known already.
    """
    train = samples.split == TRAIN
    if in_history is None:
        in_history = training_histories(log, samples)
    items, users = np.zeros(len(log.items), bool), np.zeros(len(log.users), bool)
    items[log.item[in_history]] = True
    items[samples.item[train]] = True
    users[samples.user[train]] = True
    items[0] = users[0] = False
    return items, users
