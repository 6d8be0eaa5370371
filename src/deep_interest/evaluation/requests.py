"""Metrics of the lists in which items were shown: GAUC by request, and the four metrics of the MIND leaderboard."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deep_interest.evaluation.metrics import per_user_auc

REQUEST_METRICS = ("request_gauc", "request_auc", "mrr", "ndcg_5", "ndcg_10", "request_coverage")
_CUTOFFS = (5, 10)
_TIE_SEED = 0


def request_metrics(requests: ArrayLike, labels: ArrayLike, scores: ArrayLike) -> dict[str, float]:
    """Compute the metrics of the requests that have both classes; NaN if there is none.

    ``request_gauc`` weighs the AUC of each request by its rows, as GAUC does for users (DIN eq. 10). The others are plain means over
    requests, as in the evaluation of MIND (Wu et al. 2020, §5.2): ``request_auc``; ``mrr``, in which each click counts the
    reciprocal of its rank; ``ndcg_5`` and ``ndcg_10``. Rows with equal scores are ranked at random, with a fixed seed.

    Args:
        requests: ``(n,)`` integer codes.
        labels: ``(n,)`` in {0, 1}.
        scores: ``(n,)`` finite, any monotone scale.

    Raises:
        InputError: as for `metrics.per_user_auc`.
    """
    by_request = per_user_auc(requests, labels, scores)
    if not len(by_request.users):
        return dict.fromkeys(REQUEST_METRICS, float("nan")) | {"request_coverage": 0.0}
    requests, labels, scores = np.asarray(requests), np.asarray(labels), np.asarray(scores)
    rows = np.isin(requests, by_request.users)
    starts, rank, clicked = _ranked(requests[rows], labels[rows], scores[rows])
    clicks = np.add.reduceat(clicked, starts)
    metrics = {
        "request_gauc": by_request.gauc().value,
        "request_auc": float(by_request.auc.mean()),
        "mrr": float((np.add.reduceat(clicked / rank, starts) / clicks).mean()),
    }
    for cutoff in _CUTOFFS:
        gain = np.where(rank <= cutoff, clicked / np.log2(rank + 1), 0.0)
        ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, cutoff + 2)))])
        ndcg = np.add.reduceat(gain, starts) / ideal[np.minimum(clicks, cutoff)]
        metrics[f"ndcg_{cutoff}"] = float(ndcg.mean())
    return metrics | {"request_coverage": len(by_request.users) / by_request.total_users}


def mean_request_metrics(
    requests: ArrayLike, labels: ArrayLike, scores_by_seed: Sequence[ArrayLike]
) -> dict[str, float]:
    """Return the metrics of the requests as means over seeds."""
    per_seed = [request_metrics(requests, labels, scores) for scores in scores_by_seed]
    return {name: float(np.mean([metrics[name] for metrics in per_seed])) for name in REQUEST_METRICS}


def _ranked(
    requests: NDArray, labels: NDArray, scores: NDArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Sort rows by request and descending score.

    Returns:
        First row of each request, and for each row its rank within the request, from 1, and its label.
    """
    ties = np.random.default_rng(_TIE_SEED).random(len(requests))
    order = np.lexsort((ties, -scores, requests))
    requests = requests[order]
    starts = np.flatnonzero(np.concatenate([[True], requests[1:] != requests[:-1]]))
    rows = np.diff(starts, append=len(requests))
    rank = np.arange(1, len(requests) + 1) - np.repeat(starts, rows)
    return starts, rank, labels[order].astype(np.int64)
