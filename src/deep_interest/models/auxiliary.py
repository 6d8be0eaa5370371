"""DIEN's auxiliary loss: a state should distinguish the next behaviour from an item that was not clicked (DIEN eq. 7)."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from deep_interest.models.batch import Batch
from deep_interest.models.config import DeepConfig
from deep_interest.models.layers import MLP
from deep_interest.ops.jagged_products import circular_dot, shifted_dot


class AuxiliaryConfig(DeepConfig):
    """Options of the models that have an auxiliary loss.

    Attributes:
        aux_weight: α of eq. 8; 0 for no auxiliary loss.
        aux_score: ``inner`` product (eq. 7) or a small ``net`` over the concatenation (100-50-1, the authors' code).
        aux_scale: what the sum over all positions is divided by: ``positions``, their number (the authors' code), or
            ``sequences``, the number of samples (eq. 7).
        aux_contrast: ``binary`` (eq. 7) or ``infonce``.
        aux_negatives: negatives per position (``infonce``).
    """

    aux_weight: float = Field(0.0, ge=0)
    aux_score: Literal["inner", "net"] = "inner"
    aux_scale: Literal["positions", "sequences"] = "positions"
    aux_contrast: Literal["binary", "infonce"] = "binary"
    aux_negatives: int = Field(8, ge=1)


class AuxiliaryLoss(nn.Module):
    """Loss of each state against the next behaviour and sampled items, times α.

    ``binary`` is eq. 7: ``-[log σ(h_t, e[t+1]) + log(1 - σ(h_t, ê[t+1]))]``, one negative per position. ``infonce`` is
    ``-log(exp s(h_t, e[t+1]) / (exp s(h_t, e[t+1]) + Σ_k exp s(h_t, ê_k)))`` with ``aux_negatives`` of them: the item
    sampled for the next behaviour and, as in-batch negatives, those sampled for the behaviours after it in the batch
    (van den Oord et al. 2018).

    A history that several samples share counts once for each of them. Given the negatives, the ``binary`` loss and its
    gradients are those of a batch in which every sample has a copy of its history. The ``infonce`` loss is so in
    expectation over the negatives: the behaviours whose negatives a position borrows are others.

    Args:
        width: width of states and behaviours.
        config: the options.
    """

    def __init__(self, width: int, config: AuxiliaryConfig) -> None:
        super().__init__()
        self.net = MLP(2 * width, (100, 50), activation="sigmoid") if config.aux_score == "net" else None
        self.weight, self.scale = config.aux_weight, config.aux_scale
        self.contrast, self.negatives = config.aux_contrast, config.aux_negatives

    def forward(self, states: Tensor, history: Tensor, drawn: Tensor, batch: Batch) -> Tensor:
        """The loss times α, a scalar; 0 if no history has two behaviours.

        Shape: ``states``, ``history``, ``drawn`` (embeddings of ``batch.negatives``) ``(N, width)``.
        """
        at = batch.histories.followed
        if not len(at):
            return states.sum() * 0
        losses = self._losses(states, history, drawn, at, batch)
        if batch.owner is not None:
            losses = losses * batch.samples_per_history[batch.histories.segments[at]]
        count = batch.size if self.scale == "sequences" else max(batch.pairs.followed_total, 1)
        return losses.sum() * (self.weight / count)

    def _losses(self, states: Tensor, history: Tensor, drawn: Tensor, at: Tensor, batch: Batch) -> Tensor:
        """The loss of each of the states ``at``, ``(n,)``."""
        items = [history, drawn] if self.contrast == "binary" else [history]
        right, *wrong = self._with_next(states, items, at, batch)
        if self.contrast == "binary":
            return F.softplus(-right) + F.softplus(wrong[0])
        scores = torch.cat([right.unsqueeze(1), self._with_lent(states, drawn, at, batch)], dim=1)
        return F.cross_entropy(scores, torch.zeros_like(at), reduction="none")

    def _with_lent(self, states: Tensor, drawn: Tensor, at: Tensor, batch: Batch) -> Tensor:
        """Scores of the states ``at`` with the items drawn at the next positions, ``(n, negatives)``; -inf of the clicked one."""
        assert batch.negatives is not None
        lent = (at.unsqueeze(1) + 1 + torch.arange(self.negatives, device=at.device)) % len(drawn)
        if self.net is None:
            scores = circular_dot(states, drawn, self.negatives)[at]
        else:
            scores = torch.stack([self._score(states[at], drawn[rows]) for rows in lent.unbind(1)], dim=1)
        same = [
            codes[lent] == batch.history[name][at + 1].unsqueeze(1) for name, codes in batch.negatives.items()
        ]
        return scores.masked_fill(torch.stack(same).all(0), -torch.inf)

    def _with_next(self, states: Tensor, items: Sequence[Tensor], at: Tensor, batch: Batch) -> list[Tensor]:
        """Scores of the states ``at`` with the items one position further on, of each ``(N, width)``."""
        if self.net is None:
            return [scores[at] for scores in shifted_dot(states, items, batch.histories)]
        return [self._score(states[at], given[at + 1]) for given in items]

    def _score(self, state: Tensor, item: Tensor) -> Tensor:
        assert self.net is not None
        return self.net(torch.cat([state, item], dim=1)).squeeze(1)
