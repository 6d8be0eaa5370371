"""Negatives of one partition of the users: the function that DuckDB's path and Spark's workers call."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deep_interest.engines.partitions import by_segment
from deep_interest.logs.hashed_sampling import hashed_negatives
from deep_interest.logs.hashing import Purpose
from deep_interest.logs.samples import SPLITS, TRAIN

_USED = ("user", "item", "time", "position", "history_end", "history_begin", "split")
NO_TARGET = -1
"""Value of ``split`` of a behaviour that is not a target."""


@dataclass(frozen=True)
class Pool:
    """Items from which negatives are chosen.

    Attributes:
        items: ``(m,)`` int32 codes, increasing.
        weights: ``(m,)`` int64, proportional to their probabilities; None if they are equal.
    """

    items: np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class PairWithNegatives:
    """Make two samples of each target: the target, and an item that its user never interacted with.

    Attributes:
        training, held_out: pools of training targets, and of validation and test targets.
        seed: seed of the protocol.
        has_begins: whether the log has ``history_begin``.
    """

    training: Pool
    held_out: Pool
    seed: int
    has_begins: bool = False

    def __call__(self, log: pa.Table) -> pa.Table:
        """Return the samples of a partition of the log; targets for which no negative exists are left out."""
        log = by_segment(log.select([name for name in _USED if name in log.column_names]))
        columns = {name: log[name].to_numpy() for name in log.column_names}
        rows = np.flatnonzero(columns["split"] != NO_TARGET)
        train = columns["split"][rows] == TRAIN
        negatives = np.zeros(len(rows), np.int32)
        for chosen, pool, purpose in (
            (train, self.training, Purpose.TRAINING_NEGATIVE),
            (~train, self.held_out, Purpose.HELD_OUT_NEGATIVE),
        ):
            targets = rows[chosen]
            negatives[chosen] = hashed_negatives(
                columns["user"][targets], columns["position"][targets], seen_users=columns["user"], seen_items=columns["item"],
                pool=pool.items, weights=pool.weights, seed=self.seed, purpose=purpose,
            )  # fmt: skip
        possible = negatives > 0
        rows, negatives = rows[possible], negatives[possible]
        pairs = {
            name: np.repeat(columns[name][rows], 2)
            for name in ("user", "time", "history_end", "history_begin")
            if name in columns
        }
        pairs |= {
            "item": np.stack([columns["item"][rows], negatives], axis=1).ravel(),
            "label": np.tile(np.array([1, 0], np.int8), len(rows)),
            "split": pa.DictionaryArray.from_arrays(np.repeat(columns["split"][rows], 2), list(SPLITS)),
        }
        schema = samples_schema(has_begins=self.has_begins)
        return pa.table({field.name: pairs[field.name] for field in schema})


def samples_schema(*, has_begins: bool) -> pa.Schema:
    """Return the columns of the samples of behaviours, in the order of the ``samples`` table."""
    begins = [pa.field("history_begin", pa.int32())] if has_begins else []
    return pa.schema(
        [
            pa.field("user", pa.int32()), pa.field("item", pa.int32()), pa.field("label", pa.int8()), pa.field("time", pa.int64()),
            pa.field("history_end", pa.int32()), *begins, pa.field("split", pa.string()),
        ]
    )  # fmt: skip
