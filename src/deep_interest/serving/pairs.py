"""Scoring users × candidates in batches: CTR, eCPM = CTR^γ × bid, and each user's best, in bounded memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from deep_interest.training.data import FeatureStore


@dataclass(frozen=True)
class Scores:
    """Scored pairs as a stream.

    Attributes:
        version: of the model.
        blocks: frames of ``user, item, rank, ctr, bid, ecpm, model_version``, a group of users each.
    """

    version: str
    blocks: Iterator[pd.DataFrame]


@dataclass(frozen=True)
class ScoringRequest:
    """Who is scored with what.

    Attributes:
        users: ``(U,)`` ids.
        user_codes: ``(U,)`` int32, 0 for a user the log does not have.
        context: ``{field: (U,) int32}`` codes of the impressions to come.
        items: ``(C,)`` ids.
        item_codes: ``(C,)`` int32, 0 for an item the catalogue does not have.
        bids: ``(C,)`` float64.
    """

    users: pd.Series
    user_codes: np.ndarray
    context: Mapping[str, np.ndarray]
    items: pd.Series
    item_codes: np.ndarray
    bids: np.ndarray


def score_pairs(
    model: Any,
    store: "FeatureStore",
    asked: ScoringRequest,
    *,
    version: str,
    max_len: int,
    gamma: float = 1.0,
    top_k: int | None = None,
    pairs_at_once: int = 65_536,
    batch_size: int = 4096,
) -> Iterator[pd.DataFrame]:
    """Score every user with every candidate, by the same code as evaluation; a user's history is all of her behaviours.

    Memory beside the store is that of ``max(pairs_at_once, C)`` pairs.

    Args:
        model: trained, on the store's device.
        store: log and feature codes, as the model's vocabularies have them.
        asked: users and candidates.
        version: the model's.
        max_len: behaviours in a history.
        gamma: eCPM = CTR^γ × bid (DIEN, footnote 4).
        top_k: candidates that a user keeps; all if None. Of equal ones the first in the candidates' order.
        pairs_at_once: users are taken in groups of at most this many pairs.
        batch_size: pairs that the model sees at once.

    Yields:
        A frame for each group of users, rank 1 first for each user.
    """
    C = len(asked.items)
    group = max(1, pairs_at_once // max(C, 1))
    kept = C if top_k is None else min(top_k, C)
    for begin in range(0, len(asked.users), group):
        rows = slice(begin, begin + group)
        ctr = _ctr(model, store, asked, rows, max_len=max_len, batch_size=batch_size)  # (U, C)
        ecpm = ctr.astype(np.float64) ** gamma * asked.bids
        best = np.argsort(-ecpm, axis=1, kind="stable")[:, :kept]
        flat = best.ravel()
        yield pd.DataFrame(
            {
                "user": asked.users.iloc[rows].repeat(kept).reset_index(drop=True),
                "item": asked.items.iloc[flat].reset_index(drop=True),
                "rank": np.tile(np.arange(1, kept + 1, dtype=np.int32), len(best)),
                "ctr": np.take_along_axis(ctr, best, axis=1).ravel(),
                "bid": asked.bids[flat],
                "ecpm": np.take_along_axis(ecpm, best, axis=1).ravel(),
                "model_version": pd.Categorical.from_codes(np.zeros(len(flat), np.int8), [version]),
            }
        )


def _ctr(
    model: Any, store: "FeatureStore", asked: ScoringRequest, rows: slice, *, max_len: int, batch_size: int
) -> np.ndarray:
    """Predicted CTRs ``(U, C)`` float32 of some users."""
    import torch  # noqa: PLC0415

    from deep_interest.training.data import SampleSet  # noqa: PLC0415
    from deep_interest.training.evaluation import predict  # noqa: PLC0415

    device, C = store.offsets.device, len(asked.item_codes)
    user = torch.from_numpy(asked.user_codes[rows]).to(device)
    length = store.offsets[user.long() + 1] - store.offsets[user.long()]
    pairs = SampleSet(
        store, max_len,
        user=user.repeat_interleave(C),
        item=torch.from_numpy(asked.item_codes).to(device).repeat(len(user)),
        history_end=length.int().repeat_interleave(C),
        labels=torch.zeros(len(user) * C, device=device),
        context={
            name: torch.from_numpy(codes[rows]).to(device).repeat_interleave(C)
            for name, codes in asked.context.items()
        },
    )  # fmt: skip
    return predict(model, pairs, batch_size=batch_size).reshape(len(user), C)
