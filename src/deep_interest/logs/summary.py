"""Summary of the samples: counts and shares that accompany every table."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.samples import SPLITS, Samples


def samples_summary(
    samples: Samples, log: EncodedLog, left_out: dict[str, int], *,
    known_users: np.ndarray | None = None, known_items: np.ndarray | None = None,
    unknown_fields: Mapping[str, np.ndarray] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Count the samples by split and in total, and the dropped rows by reason.

    Args:
        samples: samples.
        log: encoded behaviours.
        left_out: rows dropped in earlier steps, as ``{reason: rows}``.
        known_users, known_items: bool by code, users and items known to training; all if None.
        unknown_fields: ``{field: (n,) bool}``, samples whose value of a feature is missing or unknown to training.

    Returns:
        Rows ``train``, ``validation``, ``test``, ``all`` and one ``left out`` per reason; columns ``split, rows, positives,
        users, items, behaviors, mean_history, max_history, unknown_users, unknown_items, unknown_<field> …, reason``.
        ``users``, ``items`` and ``behaviors`` of ``all`` are those of the log (behaviours do not belong to a split);
        histories are counted before they are truncated; ``unknown_users``, ``unknown_items`` and ``unknown_<field>`` are
        the shares of rows whose user, item or field value is unknown to training.
    """
    unknown = {
        "unknown_users": _unknown(samples.user, known_users),
        "unknown_items": _unknown(samples.item, known_items),
    }
    of_fields = {f"unknown_{name}": rows for name, rows in (unknown_fields or {}).items()}
    unknown |= {name: rows for name, rows in of_fields.items() if name not in unknown}
    rows = [_row(name, samples, unknown, samples.split == index) for index, name in enumerate(SPLITS)]
    total = _row("all", samples, unknown, np.ones(len(samples.user), bool))
    total |= {"users": _distinct(log.user), "items": _distinct(log.item), "behaviors": len(log.user)}
    return summary_table([*rows, total], left_out | samples.left_out, list(unknown))


def summary_table(rows: list[dict[str, object]], left_out: dict[str, int], shares: list[str]) -> pd.DataFrame:
    """Return the summary from the counts of the splits and of all samples.

    Args:
        rows: ``train``, ``validation``, ``test`` and ``all``, each with its counts.
        left_out: dropped rows, as ``{reason: rows}``.
        shares: names of the columns of shares.
    """
    lost = [{"split": "left out", "rows": count, "reason": reason} for reason, count in left_out.items()]
    counts = ["rows", "positives", "users", "items", "behaviors"]
    columns = ["split", *counts, "mean_history", "max_history", *shares, "reason"]
    table = pd.DataFrame([*rows, *lost], columns=columns)
    return table.astype(dict.fromkeys([*counts, "max_history"], "Int64"))


def _row(name: str, samples: Samples, unknown: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, object]:
    history = samples.history_end[mask]
    return {
        "split": name,
        "rows": int(mask.sum()),
        "positives": int(samples.label[mask].sum()),
        "users": _distinct(samples.user[mask]),
        "items": _distinct(samples.item[mask]),
        "mean_history": round(float(history.mean()), 3) if len(history) else 0.0,
        "max_history": int(history.max(initial=0)),
        **{
            share: round(float(rows[mask].mean()), 4) if mask.any() else 0.0
            for share, rows in unknown.items()
        },
        "reason": "",
    }


def _unknown(codes: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    return (codes == 0) if known is None else ~known[codes]


def _distinct(codes: np.ndarray) -> int:
    return int(np.count_nonzero(np.bincount(codes)))
