"""What the samples are made of: the counts beside every table."""

import numpy as np
import pandas as pd

from deep_interest.logs.encoding import EncodedLog
from deep_interest.logs.protocols import SPLITS, Samples


def samples_summary(samples: Samples, log: EncodedLog, left_out: dict[str, int]) -> pd.DataFrame:
    """Counts of the samples by split, of the whole, and of the rows that are in none, with the reason.

    Returns:
        Rows ``train``, ``validation``, ``test``, ``all`` and one ``left out`` for each reason; columns ``split, rows,
        positives, users, items, behaviors, mean_history, max_history, reason``. ``users``, ``items`` and ``behaviors``
        of ``all`` are those of the log (behaviours belong to no split); histories are counted before they are cut.
    """
    rows = [_row(name, samples, samples.split == index) for index, name in enumerate(SPLITS)]
    total = _row("all", samples, np.ones(len(samples.user), bool))
    total |= {
        "users": int((log.length > 0).sum()) if len(log.user) else 0,
        "items": _distinct(log.item),
        "behaviors": len(log.user),
    }
    reasons = left_out | samples.left_out
    lost = [{"split": "left out", "rows": count, "reason": reason} for reason, count in reasons.items()]
    table = pd.DataFrame([*rows, total, *lost])
    for name in ("rows", "positives", "users", "items", "behaviors", "max_history"):
        table[name] = (
            table[name].astype("Int64") if name in table else pd.array([pd.NA] * len(table), "Int64")
        )
    if "reason" not in table:
        table["reason"] = ""
    order = [
        "split",
        "rows",
        "positives",
        "users",
        "items",
        "behaviors",
        "mean_history",
        "max_history",
        "reason",
    ]
    return table[order].fillna({"reason": ""})


def _row(name: str, samples: Samples, mask: np.ndarray) -> dict[str, object]:
    history = samples.history_end[mask]
    return {
        "split": name,
        "rows": int(mask.sum()),
        "positives": int(samples.label[mask].sum()),
        "users": _distinct(samples.user[mask]),
        "items": _distinct(samples.item[mask]),
        "mean_history": round(float(history.mean()), 3) if len(history) else 0.0,
        "max_history": int(history.max(initial=0)),
    }


def _distinct(codes: np.ndarray) -> int:
    return int(np.count_nonzero(np.bincount(codes))) if len(codes) else 0
