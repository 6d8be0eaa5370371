"""Batch scoring of users × candidates: CTR, eCPM = CTR^γ × bid, and the top k of each user, in bounded memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.models.config import Precision

if TYPE_CHECKING:
    from deep_interest.training.data import FeatureStore

_FLOAT32, _UNCALIBRATED = Precision(), Calibration()


@dataclass(frozen=True)
class Scores:
    """A stream of scored pairs.

    Attributes:
        version: id of the model's version.
        precision: precision in which it scores.
        blocks: tables with the columns ``user``, ``item``, ``rank``, ``ctr``, ``bid``, ``ecpm``, ``model_version``; one per group
            of users.
    """

    version: str
    blocks: Iterator[pd.DataFrame]
    precision: Precision = _FLOAT32


@dataclass(frozen=True)
class ScoringRequest:
    """Users and the candidates to score for each of them.

    Attributes:
        users: ``(U,)`` user ids.
        user_codes: ``(U,)`` int32 codes of the users; 0 for users without a log.
        context: ``{field: (U,)}`` int32 codes of the context in which each user will see the candidates.
        items: ``(C,)`` item ids of the candidates.
        item_codes: ``(C,)`` int32 codes of the candidates; 0 for items outside the catalogue.
        bids: ``(C,)`` float64 bids of the candidates.
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
    request: ScoringRequest,
    *,
    version: str,
    max_len: int,
    gamma: float = 1.0,
    top_k: int | None = None,
    pairs_at_once: int = 65_536,
    batch_size: int = 4096,
    calibration: Calibration = _UNCALIBRATED,
) -> Iterator[pd.DataFrame]:
    """Score every candidate for every user, with the same code as evaluation.

    The history of a user is the whole log, and the time is that of its newest behaviour. In addition to the store, memory for ``max(pairs_at_once, C)`` pairs is used.

    Args:
        model: trained model, on the device of the store.
        store: log and feature codes in the model's vocabularies.
        request: users and candidates.
        version: id of the model's version.
        max_len: maximum number of behaviours in a history; the newest ones are kept.
        gamma: exponent γ of eCPM = CTR^γ × bid (DIEN, footnote 4).
        top_k: number of candidates to keep per user, by eCPM; all if None. Of candidates with equal eCPM the first are kept.
        pairs_at_once: maximum number of pairs per group of users.
        batch_size: number of pairs per forward pass of the model.
        calibration: calibration of the model's probabilities.

    Yields:
        A table per group of users, as in `Scores.blocks`; the candidates of a user are ordered by rank, from 1.
    """
    C = len(request.items)
    group_size = max(1, pairs_at_once // max(C, 1))
    kept = C if top_k is None else min(top_k, C)
    for begin in range(0, len(request.users), group_size):
        rows = slice(begin, begin + group_size)
        ctr = calibration(_ctr(model, store, request, rows, max_len=max_len, batch_size=batch_size))  # (U, C)
        ecpm = ctr.astype(np.float64) ** gamma * request.bids
        best = np.argsort(-ecpm, axis=1, kind="stable")[:, :kept]
        flat = best.ravel()
        yield pd.DataFrame(
            {
                "user": request.users.iloc[rows].repeat(kept).reset_index(drop=True),
                "item": request.items.iloc[flat].reset_index(drop=True),
                "rank": np.tile(np.arange(1, kept + 1, dtype=np.int32), len(best)),
                "ctr": np.take_along_axis(ctr, best, axis=1).ravel(),
                "bid": request.bids[flat],
                "ecpm": np.take_along_axis(ecpm, best, axis=1).ravel(),
                "model_version": pd.Categorical.from_codes(np.zeros(len(flat), np.int8), [version]),
            }
        )


def _ctr(
    model: Any, store: "FeatureStore", request: ScoringRequest, rows: slice, *, max_len: int, batch_size: int
) -> np.ndarray:
    """Return the CTRs that the model predicts for the users in ``rows``, float32 ``(U, C)``."""
    import torch  # noqa: PLC0415

    from deep_interest.training.data import SampleSet  # noqa: PLC0415
    from deep_interest.training.evaluation import predict  # noqa: PLC0415

    device, C = store.offsets.device, len(request.item_codes)
    user = torch.from_numpy(request.user_codes[rows]).to(device)
    length = store.offsets[user.long() + 1] - store.offsets[user.long()]
    pairs = SampleSet(
        store, max_len,
        user=user.repeat_interleave(C),
        item=torch.from_numpy(request.item_codes).to(device).repeat(len(user)),
        history_end=length.int().repeat_interleave(C),
        labels=torch.zeros(len(user) * C, device=device),
        context={
            name: torch.from_numpy(codes[rows]).to(device).repeat_interleave(C)
            for name, codes in request.context.items()
        },
        time=store.now(len(user) * C),
    )  # fmt: skip
    return predict(model, pairs, batch_size=batch_size).reshape(len(user), C)
