"""Encode users and items of the behaviours, which are the order and the segments of the behaviour log."""

from dataclasses import dataclass

import numpy as np

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import run_offsets
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary, check_fits_int32


@dataclass(frozen=True)
class EncodedLog:
    """The encoded behaviours; ``user`` and ``item`` codes cover the whole catalogue.

    Attributes:
        users: vocabulary of the user ids.
        items: vocabulary of the item ids.
        offsets: ``(S + 1,)`` segments of the behaviours: one for each user, or for each given history.
        user, item: ``(N,)`` int32 codes of each behaviour.
        time: ``(N,)`` int64.
        rating: ``(N,)`` float32, or None.
        day: ``(N,)`` int32 local days, or None if the source only has times.
        given_segment: ``(N,)`` segment of each behaviour, if the source gives the history of each impression; None if the segment
            is the user.
        target: ``(N,)`` bool, behaviours that can be targets; None if all can.
    """

    users: Vocabulary
    items: Vocabulary
    offsets: np.ndarray
    user: np.ndarray
    item: np.ndarray
    time: np.ndarray
    rating: np.ndarray | None
    day: np.ndarray | None = None
    given_segment: np.ndarray | None = None
    target: np.ndarray | None = None

    @property
    def segment(self) -> np.ndarray:
        """``(N,)`` segment of each behaviour."""
        return self.user if self.given_segment is None else self.given_segment

    @property
    def position(self) -> np.ndarray:
        """``(N,)`` number of earlier behaviours in the same segment."""
        return np.arange(len(self.user)) - self.offsets[self.segment]

    @property
    def length(self) -> np.ndarray:
        """``(S,)`` number of behaviours by segment."""
        return np.diff(self.offsets)


def encode_log(tables: CanonicalTables, *, users: Vocabulary, items: Vocabulary) -> EncodedLog:
    """Encode users and items of the behaviours.

    Args:
        tables: canonical tables, sorted by user and time.
        users: vocabulary of all users of behaviours and impressions.
        items: vocabulary of the catalogue.

    Raises:
        InputError: the item of a behaviour is not in the catalogue, or the number of users, items, or behaviours of a user
            exceeds int32.
    """
    behaviors = tables.behaviors
    check_fits_int32("users", len(users))
    check_fits_int32("items", len(items))
    user, item = users.encode(behaviors["user"]), items.encode(behaviors["item"])
    if (item == 0).any():
        missing = behaviors["item"][item == 0].iloc[0]
        raise InputError(
            f"items: {int((item == 0).sum())} behaviours refer to items without a row, the first is {missing!r}"
        )
    rating = behaviors["rating"].to_numpy(np.float32) if "rating" in behaviors else None
    day = behaviors["day"].to_numpy(np.int32) if "day" in behaviors else None
    segment, segments = None, len(users)
    if "segment" in behaviors:
        segments = 1 + int(behaviors["segment"].max())
        check_fits_int32("impressions.history: distinct histories", segments)
        segment = behaviors["segment"].to_numpy(np.int32)
    offsets = run_offsets(user if segment is None else segment, segments)
    check_fits_int32("behaviors: behaviours of one user", int(np.diff(offsets).max()))
    return EncodedLog(users, items, offsets, user, item, behaviors["time"].to_numpy(), rating, day, segment)
