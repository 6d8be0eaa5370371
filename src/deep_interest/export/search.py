"""Searches in the history of one user, as masks: 1 for a selected behaviour of a candidate, 0 for all others."""

import torch
from torch import Tensor


def newest_matching(codes: Tensor, targets: Tensor, count: int) -> Tensor:
    """Select the newest ``count`` behaviours whose code is the candidate's; code 0 matches nothing
    (`ops.search.newest_matching`).

    Shape: ``codes (N,)``, ``targets (C,)`` -> float ``(C, N)``.
    """
    matches = (codes == targets.unsqueeze(1)) & (targets.unsqueeze(1) > 0)
    return (matches & (_newest_first(matches) <= count)).float()


def top_scores(scores: Tensor, real: Tensor, count: int) -> Tensor:
    """Select the ``count`` behaviours with the highest scores; of equal scores the newest (`ops.search.top_scores`).

    Shape: ``scores (C, N)``, ``real (N,)`` -> float ``(C, N)``.
    """
    scores = scores.masked_fill(real == 0, -torch.inf)
    filled = torch.cat([scores, scores.new_full((1, count), -torch.inf).expand(scores.shape[0], -1)], dim=1)
    threshold = filled.topk(count, dim=1).values[:, -1:]  # the score of the last selected behaviour
    above, equal = scores > threshold, scores == threshold
    remaining = count - above.sum(1, keepdim=True)
    return (above | (equal & (_newest_first(equal) <= remaining))).float() * real


def hash_bits(vectors: Tensor, planes: Tensor) -> Tensor:
    """Return the SimHash of each vector as bits ±1 (`ops.search.sim_hash`). Shape: ``(n, D), (D, m) -> (n, m)``."""
    return 2 * (vectors @ planes > 0).to(vectors.dtype) - 1


def common_buckets(behaviors: Tensor, candidates: Tensor, rounds: int) -> Tensor:
    """Return whether a behaviour has all bits of a bucket in common with a candidate, in each round of hashing.

    Shape: bits ``behaviors (N, m)``, ``candidates (C, m)`` -> float ``(C, rounds, N)``.
    """
    of_behaviors = behaviors.unflatten(1, (rounds, -1)).permute(1, 2, 0)  # (rounds, bits, N)
    of_candidates = candidates.unflatten(1, (rounds, -1)).transpose(0, 1)  # (rounds, C, bits)
    agreeing = (of_candidates @ of_behaviors).transpose(0, 1)
    return (agreeing > of_behaviors.shape[1] - 1).to(agreeing.dtype)


def _newest_first(selected: Tensor) -> Tensor:
    """Number the selected behaviours from the newest, from 1. Shape: bool ``(C, N)`` -> int64 ``(C, N)``."""
    return selected.long().flip(1).cumsum(1).flip(1)
