"""DIEN's auxiliary loss: a state should tell the next behaviour from an item that was not clicked (DIEN eq. 7)."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.models.batch import Batch
from deep_interest.models.layers import MLP
from deep_interest.ops.products import next_dots, ring_dots

Score = Literal["inner", "net"]
Contrast = Literal["binary", "infonce"]


class AuxiliaryLoss(nn.Module):
    """Loss of each state against the next behaviour and drawn items, averaged over the positions that have a next one.

    ``binary`` is eq. 7: ``-[log σ(h_t, e[t+1]) + log(1 - σ(h_t, ê[t+1]))]``, one drawn item each. ``infonce`` is
    ``-log(exp s(h_t, e[t+1]) / (exp s(h_t, e[t+1]) + Σ_k exp s(h_t, ê_k)))`` with ``negatives`` drawn items each,
    which positions of the batch lend one another (van den Oord et al. 2018).

    Args:
        width: of states and behaviours.
        score: ``inner`` product (the paper), or a small ``net`` over the concatenation (100-50-1, the authors' code).
        contrast: ``binary`` or ``infonce``.
        negatives: drawn items a position (``infonce``).
    """

    def __init__(
        self, width: int, *, score: Score = "inner", contrast: Contrast = "binary", negatives: int = 8
    ) -> None:
        super().__init__()
        self.net = MLP(2 * width, (100, 50), activation="sigmoid") if score == "net" else None
        self.contrast, self.negatives = contrast, negatives

    def forward(self, states: Tensor, history: Tensor, drawn: Tensor, batch: Batch) -> Tensor:
        """The loss, a scalar; 0 if no history has two behaviours.

        Shape: ``states``, ``history``, ``drawn`` (embeddings of ``batch.negatives``) ``(N, width)``.
        """
        at = batch.histories.followed
        if not len(at):
            return states.sum() * 0
        items = [history, drawn] if self.contrast == "binary" else [history]
        right, *wrong = self._with_next(states, items, at, batch)
        if self.contrast == "binary":
            return (F.softplus(-right) + F.softplus(wrong[0])).mean()
        scores = torch.cat([right.unsqueeze(1), self._with_lent(states, drawn, at, batch)], dim=1)
        return F.cross_entropy(scores, torch.zeros_like(at))

    def _with_lent(self, states: Tensor, drawn: Tensor, at: Tensor, batch: Batch) -> Tensor:
        """Scores of the states ``at`` with the items drawn at the next positions, ``(n, negatives)``; -inf of the clicked one."""
        assert batch.negatives is not None
        lent = (at.unsqueeze(1) + 1 + torch.arange(self.negatives, device=at.device)) % len(drawn)
        if self.net is None:
            scores = ring_dots(states, drawn, self.negatives)[at]
        else:
            scores = torch.stack([self._score(states[at], drawn[rows]) for rows in lent.unbind(1)], dim=1)
        same = [
            codes[lent] == batch.history[name][at + 1].unsqueeze(1) for name, codes in batch.negatives.items()
        ]
        return scores.masked_fill(torch.stack(same).all(0), -torch.inf)

    def _with_next(self, states: Tensor, items: Sequence[Tensor], at: Tensor, batch: Batch) -> list[Tensor]:
        """Scores of the states ``at`` with the items one position further on, of each ``(N, width)``."""
        if self.net is None:
            return [scores[at] for scores in next_dots(states, items, batch.histories)]
        return [self._score(states[at], given[at + 1]) for given in items]

    def _score(self, state: Tensor, item: Tensor) -> Tensor:
        assert self.net is not None
        return self.net(torch.cat([state, item], dim=1)).squeeze(1)
