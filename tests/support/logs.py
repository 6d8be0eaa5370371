"""Small logs for the tests."""

import numpy as np
import pandas as pd

from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoded_log import EncodedLog, encode_log
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary


def tables_of(
    behaviors: list[tuple], *, items: int | None = None, impressions: list[tuple] | None = None
) -> CanonicalTables:
    """Canonical tables of ``(user, item, time[, rating])`` rows; the catalogue is the items seen, or 1 … ``items``."""
    columns = ["user", "item", "time", "rating"][: len(behaviors[0])]
    frame = pd.DataFrame(behaviors, columns=columns)
    seen = list(frame["item"]) + [row[1] for row in impressions or []]
    known = range(1, items + 1) if items else sorted(set(seen))
    catalogue = pd.DataFrame({"item": list(known)})
    catalogue["category"] = [f"c{hash_free(item) % 3}" for item in catalogue["item"]]
    shown = None
    if impressions is not None:
        shown = pd.DataFrame(
            impressions, columns=["user", "item", "time", "label", "pid"][: len(impressions[0])]
        )
    return canonical(CanonicalTables(frame, catalogue, None, shown))


def hash_free(item: object) -> int:
    """A number for an item that does not depend on Python's hash seed."""
    return sum(str(item).encode())


def encoded(tables: CanonicalTables) -> EncodedLog:
    """The coded log of canonical tables."""
    users = [tables.behaviors["user"]] + (
        [tables.impressions["user"]] if tables.impressions is not None else []
    )
    return encode_log(tables, users=Vocabulary.fit(*users), items=Vocabulary.fit(tables.items["item"]))


def random_log(
    rng: np.random.Generator, *, users: int = 30, items: int = 40, longest: int = 12, ratings: bool = False
) -> EncodedLog:
    """A log of users with 1 … ``longest`` behaviours over distinct items and many tied stamps."""
    rows = []
    for user in range(users):
        for item in rng.choice(items, size=rng.integers(1, longest + 1), replace=False):
            row = (f"u{user}", int(item) + 1, int(rng.integers(0, 5)))
            rows.append((*row, float(rng.integers(1, 6))) if ratings else row)
    return encoded(tables_of(rows, items=items))
