"""Metrics of groups of samples: calibration, GAUC by group, CTR by day."""

import numpy as np
import pandas as pd

from deep_interest.evaluation.metrics import per_user_auc


def calibration(labels: np.ndarray, predictions: np.ndarray, *, bins: int = 10) -> pd.DataFrame:
    """Compare mean prediction and share of positives in bins of equal size, ordered by prediction.

    Args:
        labels: ``(n,)`` in {0, 1}.
        predictions: ``(n,)`` predicted CTR, or ``(seeds, n)``; the predictions of all seeds are then pooled.
        bins: number of bins.

    Returns:
        Columns ``predicted``, ``observed``, ``samples``, one row per bin, and ``error``: the mean absolute difference of
        predicted and observed, weighted by samples; the same in each row.
    """
    labels, predictions = np.broadcast_to(labels, predictions.shape).ravel(), predictions.ravel()
    bin_of = np.argsort(np.argsort(predictions, kind="stable")) * bins // len(predictions)
    table = (
        pd.DataFrame({"bin": bin_of, "predicted": predictions, "observed": labels})
        .groupby("bin")
        .agg(predicted=("predicted", "mean"), observed=("observed", "mean"), samples=("observed", "size"))
    )
    error = np.average((table["predicted"] - table["observed"]).abs(), weights=table["samples"])
    return table.reset_index(drop=True).assign(error=float(error))


def gauc_by_group(
    users: np.ndarray, labels: np.ndarray, predictions: dict[str, np.ndarray], sizes: np.ndarray
) -> pd.DataFrame:
    """Compute GAUC in quarters of the test samples.

    Args:
        users: ``(n,)`` user of each test sample.
        labels: ``(n,)`` in {0, 1}.
        predictions: predicted CTR by model name, ``(n,)`` or ``(seeds, n)``.
        sizes: ``(n,)`` whole numbers that order the samples, such as the length of the history.

    Returns:
        Columns ``name``, ``group``, ``gauc`` (mean over seeds), ``samples``; one row per group and model. Groups in which no
        user has both classes are omitted.
    """
    rows = []
    for low, high in _quarters(sizes):
        chosen = (sizes >= low) & (sizes <= high)
        for name, scores in predictions.items():
            per_seed = [
                per_user_auc(users[chosen], labels[chosen], of_seed[chosen])
                for of_seed in np.atleast_2d(scores)
            ]
            if len(per_seed[0].users):
                rows.append(
                    {
                        "name": name,
                        "group": f"{low} to {high}" if low < high else str(low),
                        "gauc": float(np.mean([user_aucs.gauc().value for user_aucs in per_seed])),
                        "samples": int(chosen.sum()),
                    }
                )
    return pd.DataFrame(rows)


def ctr_by_day(days: np.ndarray, splits: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """Compute the CTR of each day.

    Args:
        days: ``(n,)`` day of each sample since 1970-01-01.
        splits: ``(n,)`` split of each sample; all samples of a day have the same.
        labels: ``(n,)`` in {0, 1}.

    Returns:
        Columns ``day``, ``split``, ``ctr``, ``impressions``, and ``date`` such as "Jan 31"; one row per day, oldest first.
    """
    samples = pd.DataFrame({"day": days, "split": splits, "label": labels})
    table = samples.groupby("day", as_index=False).agg(
        split=("split", "first"), ctr=("label", "mean"), impressions=("label", "size")
    )
    dates = pd.to_datetime(table["day"], unit="D", origin="unix")
    return table.assign(date=dates.dt.strftime("%b %d"))


def _quarters(sizes: np.ndarray) -> list[tuple[int, int]]:
    """Return the lowest and the highest size of each quarter; fewer than four if many sizes are equal."""
    edges = np.unique(np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1]).astype(int))
    if len(edges) == 1:
        return [(edges[0], edges[0])]
    return list(zip([edges[0], *(edges[1:-1] + 1)], edges[1:], strict=True))
