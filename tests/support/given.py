"""Random samples that give their history, split, request and weight, and the lists that they were made from."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.nodes import build_vocabularies, samples_from_impressions
from deep_interest.training.runs import Data

SOURCE = {
    "impressions": {"files": "x.csv", "history": "past", "order": "file", "split": "fold", "request": "list"}
}


@dataclass(frozen=True)
class GivenRow:
    """One sample: user, candidate, label, split, its history as a list of items, and its request."""

    user: int
    item: int
    label: int
    split: str
    history: tuple[int, ...]
    request: str = "0"
    weight: float = 1.0


def given_tables(rows: list[GivenRow], *, items: int = 20) -> CanonicalTables:
    """Return canonical tables in which every distinct history of a user has a segment of its own, without shared prefixes."""
    segments: dict[tuple, int] = {}
    for row in rows:
        if row.history:
            segments.setdefault((row.user, row.history), len(segments) + 1)
    behaviors = [
        (user, item, position, segment)
        for (user, history), segment in segments.items()
        for position, item in enumerate(history)
    ]
    shown = pd.DataFrame(
        [
            (
                row.user, row.item, number, row.label, row.split, segments.get((row.user, row.history), 0), len(row.history),
                row.request, row.weight,
            )
            for number, row in enumerate(rows)
        ],
        columns=["user", "item", "time", "label", "split", "segment", "history_end", "request", "weight"],
    )  # fmt: skip
    shown = shown.astype({"label": np.int8, "history_end": np.int32, "weight": np.float32})
    catalogue = pd.DataFrame(
        {"item": np.arange(1, items + 1), "category": [f"c{k % 3}" for k in range(items)]}
    )
    users = shown[["user"]].drop_duplicates()
    log = pd.DataFrame(behaviors, columns=["user", "item", "time", "segment"])
    return canonical(CanonicalTables(log, catalogue, users, shown))


def given_data(tables: CanonicalTables, **protocol: object) -> tuple[Data, pd.DataFrame]:
    """Return log, features and samples of given tables, and the summary."""
    settings = DatasetParameters(
        title="Given", source=SOURCE, protocol={"name": "given", **protocol},
        features=FeatureColumns(item=("item_id", "category"), profile=("user_id",)),
    )  # fmt: skip
    ids = build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    *data, summary = samples_from_impressions(
        tables.behaviors, tables.items, *ids, {}, settings, tables.users, tables.shown
    )
    return Data(*data), summary


def random_rows(seed: int = 0, *, rows: int = 120, items: int = 20) -> list[GivenRow]:
    """Return rows of ten users in lists of four, whose histories differ from list to list."""
    rng = np.random.default_rng(seed)
    made = []
    for request in range(rows // 4):
        history = tuple(int(item) for item in rng.integers(1, items + 1, rng.integers(0, 8)))
        user, split = int(rng.integers(1, 11)), ("train", "train", "train", "validation", "test")[request % 5]
        made += [
            GivenRow(
                user, int(rng.integers(1, items + 1)), int(rng.random() < 0.4), split, history, str(request)
            )
            for _ in range(4)
        ]
    return made
