"""DIEN's auxiliary loss: each state has to distinguish the next behaviour from a negative item (DIEN eq. 7)."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deep_interest.models.batch import Batch
from deep_interest.models.configs.auxiliary import AuxiliaryConfig
from deep_interest.models.layers import MLP
from deep_interest.ops.jagged_products import circular_dot, shifted_dot


class AuxiliaryLoss(nn.Module):
    """Loss of each state with regard to the next behaviour and to negative items, times α.

    ``binary`` is eq. 7: ``-[log σ(h_t, e[t+1]) + log(1 - σ(h_t, ê[t+1]))]``, one negative per position. ``infonce`` is
    ``-log(exp s(h_t, e[t+1]) / (exp s(h_t, e[t+1]) + Σ_k exp s(h_t, ê_k)))`` with ``aux_negatives`` of them: the item
    sampled for the next behaviour and, as in-batch negatives, those sampled for the behaviours after it in the batch
    (van den Oord et al. 2018).

    A history that several samples share counts once for each of them. Given the negatives, the ``binary`` loss and its
    gradients equal those of a batch in which every sample has its own copy of the history. For ``infonce`` this holds in
    expectation over the negatives, because the in-batch negatives of a position differ.

    Args:
        width: width of states and behaviours.
        config: options.
    """

    count_over_ranks: Callable[[int], float] | None = None  # if several processes compute parts of a batch

    def __init__(self, width: int, config: AuxiliaryConfig) -> None:
        super().__init__()
        self.net = MLP(2 * width, (100, 50), activation="sigmoid") if config.aux_score == "net" else None
        self.weight, self.scale = config.aux_weight, config.aux_scale
        self.contrast, self.negatives = config.aux_contrast, config.aux_negatives

    def forward(self, states: Tensor, history: Tensor, negatives: Tensor, batch: Batch) -> Tensor:
        """Return the loss times α, a scalar; 0 if no history has two behaviours.

        Shape: ``states``, ``history``, ``negatives`` (embeddings of ``batch.negatives``) ``(N, width)``.
        """
        positions, count = batch.histories.followed, self._count(batch)
        if not len(positions):
            return states.sum() * 0
        losses = self._losses(states, history, negatives, positions, batch)
        if batch.owner is not None:
            losses = losses * batch.samples_per_history[batch.histories.segments[positions]]
        return losses.sum() * (self.weight / count)

    def _count(self, batch: Batch) -> float:
        """Return the number of sequences or positions that the loss is divided by."""
        if self.scale == "sequences":
            return batch.size
        count = batch.pairs.followed_total
        return max(count if self.count_over_ranks is None else self.count_over_ranks(count), 1)

    def _losses(
        self, states: Tensor, history: Tensor, negatives: Tensor, positions: Tensor, batch: Batch
    ) -> Tensor:
        """Return the loss of the states at some positions, ``(n,)``."""
        items = [history, negatives] if self.contrast == "binary" else [history]
        positive, *negative = self._scores_of_next(states, items, positions, batch)
        if self.contrast == "binary":
            return F.softplus(-positive) + F.softplus(negative[0])
        in_batch = self._scores_of_in_batch_negatives(states, negatives, positions, batch)
        scores = torch.cat([positive.unsqueeze(1), in_batch], dim=1)
        return F.cross_entropy(scores, torch.zeros_like(positions), reduction="none")

    def _scores_of_in_batch_negatives(
        self, states: Tensor, negatives: Tensor, positions: Tensor, batch: Batch
    ) -> Tensor:
        """Score the states at some positions with the negatives of the next positions, ``(n, aux_negatives)``.

        A negative that equals the clicked item has the score -inf.
        """
        assert batch.negatives is not None
        rows = positions.unsqueeze(1) + 1 + torch.arange(self.negatives, device=positions.device)
        rows = rows % len(negatives)
        if self.net is None:
            scores = circular_dot(states, negatives, self.negatives)[positions]
        else:
            columns = [self._score(states[positions], negatives[column]) for column in rows.unbind(1)]
            scores = torch.stack(columns, dim=1)
        equal = [
            codes[rows] == batch.history[name][positions + 1].unsqueeze(1)
            for name, codes in batch.negatives.items()
        ]
        return scores.masked_fill(torch.stack(equal).all(0), -torch.inf)

    def _scores_of_next(
        self, states: Tensor, items: Sequence[Tensor], positions: Tensor, batch: Batch
    ) -> list[Tensor]:
        """Score the states at some positions with the items at the next positions, for each of ``items`` ``(N, width)``."""
        if self.net is None:
            return [scores[positions] for scores in shifted_dot(states, items, batch.histories)]
        return [self._score(states[positions], vectors[positions + 1]) for vectors in items]

    def _score(self, state: Tensor, item: Tensor) -> Tensor:
        assert self.net is not None
        return self.net(torch.cat([state, item], dim=1)).squeeze(1)
