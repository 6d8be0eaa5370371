"""Summary of stored samples: as `logs.summary`, from one partition after another."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deep_interest.logs.samples import SPLITS
from deep_interest.logs.summary import summary_table


def split_codes(samples: pa.Table) -> np.ndarray:
    """Return the split of each sample as an index into SPLITS, ``(n,)``."""
    split = samples["split"].combine_chunks()
    if isinstance(split, pa.DictionaryArray):
        index = pc.index_in(split.dictionary, pa.array(SPLITS)).to_numpy()
        return index[split.indices.to_numpy()]
    return pc.index_in(split, pa.array(SPLITS)).to_numpy()


class SummaryCounts:
    """Counts of the samples of each split.

    Args:
        sizes: number of codes, including code 0, of the columns ``user``, ``item`` and of each context feature.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._of_codes = {name: np.zeros((len(SPLITS), size), np.uint32) for name, size in sizes.items()}
        names = ("rows", "positives", "history", "longest")
        self._counts = {name: np.zeros(len(SPLITS), np.int64) for name in names}

    def add(self, samples: pa.Table, splits: np.ndarray) -> None:
        """Count a partition of the samples; ``splits (n,)`` are indices into SPLITS."""
        history, label = samples["history_end"].to_numpy(), samples["label"].to_numpy()
        self._counts["rows"] += np.bincount(splits, minlength=len(SPLITS))
        self._counts["positives"] += np.bincount(splits[label == 1], minlength=len(SPLITS))
        self._counts["history"] += np.bincount(splits, history, minlength=len(SPLITS)).astype(np.int64)
        for index in range(len(SPLITS)):
            longest = int(history[splits == index].max(initial=0))
            self._counts["longest"][index] = max(self._counts["longest"][index], longest)
        for name, counts in self._of_codes.items():
            cells = splits.astype(np.intp) * counts.shape[1] + samples[name].to_numpy()
            np.add.at(
                counts.ravel(), cells, np.uint32(1)
            )  # forty times as fast as with a number of another type

    @property
    def columns(self) -> list[str]:
        """Columns of the samples that are counted."""
        return ["split", "label", "history_end", *self._of_codes]

    @property
    def rows(self) -> np.ndarray:
        """``(3,)`` samples of each split."""
        return self._counts["rows"]

    def table(
        self, left_out: dict[str, int], *, unknown: Mapping[str, tuple[str, np.ndarray]], users: int, items: int, behaviors: int
    ) -> pd.DataFrame:  # fmt: skip
        """Return the summary.

        Args:
            left_out: ``{reason: rows}``.
            unknown: ``{column of the summary: (column, bool by code)}``: codes that are unknown to training.
            users, items, behaviors: distinct users and items of the log, and its behaviours.
        """
        shares = {
            name: np.array([counts[flags].sum(dtype=np.int64) for counts in self._of_codes[column]])
            for name, (column, flags) in unknown.items()
        }
        rows = [self._row(name, [index], shares) for index, name in enumerate(SPLITS)]
        total = self._row("all", [0, 1, 2], shares) | {"users": users, "items": items, "behaviors": behaviors}
        return summary_table([*rows, total], left_out, list(unknown))

    def _row(self, name: str, splits: list[int], shares: Mapping[str, np.ndarray]) -> dict[str, object]:
        rows, positives, history = (
            int(self._counts[key][splits].sum()) for key in ("rows", "positives", "history")
        )
        return {
            "split": name,
            "rows": rows,
            "positives": positives,
            **{f"{key}s": int(self._of_codes[key][splits].any(axis=0).sum()) for key in ("user", "item")},
            "mean_history": round(history / rows, 3) if rows else 0.0,
            "max_history": int(self._counts["longest"][splits].max()),
            **{key: round(int(of[splits].sum()) / rows, 4) if rows else 0.0 for key, of in shares.items()},
            "reason": "",
        }
