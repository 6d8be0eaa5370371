"""Summary of stored samples: as `logs.summary`, from one partition after another."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deep_interest.logs.protocols import SPLITS
from deep_interest.logs.summary import summary_table


def split_codes(samples: pa.Table) -> np.ndarray:
    """Return the split of each sample as an index into SPLITS, ``(n,)``."""
    return pc.index_in(samples["split"], pa.array(SPLITS)).to_numpy()


class SummaryCounts:
    """Counts of the samples of each split.

    Args:
        users, items: number of user and item codes, including code 0.
        unknown_users, unknown_items: bool by code, ids that training does not know.
        unknown_fields: ``{feature: (column, bool by code)}``: codes of the column (user, item or a context feature) for which the value
            of the feature is missing or unknown to training.
    """

    def __init__(
        self, users: int, items: int, *, unknown_users: np.ndarray, unknown_items: np.ndarray,
        unknown_fields: Mapping[str, tuple[str, np.ndarray]],
    ) -> None:  # fmt: skip
        self._unknown = {"unknown_users": ("user", unknown_users), "unknown_items": ("item", unknown_items)}
        self._unknown |= {
            f"unknown_{name}": flags
            for name, flags in unknown_fields.items()
            if f"unknown_{name}" not in self._unknown
        }
        self._seen = {
            name: np.zeros((len(SPLITS), size), bool) for name, size in (("user", users), ("item", items))
        }
        names = ("rows", "positives", "history", "longest", *self._unknown)
        self._counts = {name: np.zeros(len(SPLITS), np.int64) for name in names}

    def add(self, samples: pa.Table) -> None:
        """Count a partition of the samples."""
        columns = {name: samples[name].to_numpy() for name in samples.column_names if name != "split"}
        splits = split_codes(samples)
        for index in range(len(SPLITS)):
            chosen = splits == index
            if not chosen.any():
                continue
            history = columns["history_end"][chosen]
            self._counts["rows"][index] += np.count_nonzero(chosen)
            self._counts["positives"][index] += int(columns["label"][chosen].sum())
            self._counts["history"][index] += int(history.sum(dtype=np.int64))
            self._counts["longest"][index] = max(self._counts["longest"][index], int(history.max()))
            for name, seen in self._seen.items():
                seen[index, columns[name][chosen]] = True
            for name, (column, flags) in self._unknown.items():
                self._counts[name][index] += int(flags[columns[column][chosen]].sum())

    @property
    def rows(self) -> np.ndarray:
        """``(3,)`` samples of each split."""
        return self._counts["rows"]

    def table(self, left_out: dict[str, int], *, users: int, items: int, behaviors: int) -> pd.DataFrame:
        """Return the summary.

        Args:
            left_out: ``{reason: rows}``.
            users, items, behaviors: distinct users and items of the log, and its behaviours.
        """
        rows = [self._row(name, [index]) for index, name in enumerate(SPLITS)]
        total = self._row("all", [0, 1, 2]) | {"users": users, "items": items, "behaviors": behaviors}
        return summary_table([*rows, total], left_out, list(self._unknown))

    def _row(self, name: str, splits: list[int]) -> dict[str, object]:
        counts = {key: int(values[splits].sum()) for key, values in self._counts.items()}
        rows = counts["rows"]
        return {
            "split": name,
            "rows": rows,
            "positives": counts["positives"],
            "users": int(self._seen["user"][splits].any(axis=0).sum()),
            "items": int(self._seen["item"][splits].any(axis=0).sum()),
            "mean_history": round(counts["history"] / rows, 3) if rows else 0.0,
            "max_history": int(self._counts["longest"][splits].max()),
            **{key: round(counts[key] / rows, 4) if rows else 0.0 for key in self._unknown},
            "reason": "",
        }
