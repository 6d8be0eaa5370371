"""The order of events for ``protocol.sampling: hashed``: it depends on the content of the rows alone."""

from dataclasses import replace

import numpy as np
import pandas as pd

from deep_interest.logs.hashed_sampling import hashed_order
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary


def in_content_order(
    tables: CanonicalTables, *, users: Vocabulary, items: Vocabulary, seed: int
) -> CanonicalTables:
    """Sort behaviours and impressions by user, time, a hash of user and item, and the label.

    Args:
        tables: canonical tables with their rows in any order.
        users: vocabulary of all users of behaviours and impressions.
        items: vocabulary of the catalogue.
        seed: seed of the protocol.

    Returns:
        The tables; histories that the source gives keep their order.
    """

    def ordered(events: pd.DataFrame) -> pd.DataFrame:
        user, item = users.encode(events["user"]), items.encode(events["item"])
        label = events["label"].to_numpy() if "label" in events else None
        order = hashed_order(user, item, events["time"].to_numpy(np.int64), seed, label)
        if (order == np.arange(len(order))).all():
            return events
        return pd.DataFrame({name: column.array.take(order) for name, column in events.items()})

    behaviors = tables.behaviors if "segment" in tables.behaviors else ordered(tables.behaviors)
    impressions = None if tables.impressions is None else ordered(tables.impressions)
    return replace(tables, behaviors=behaviors, impressions=impressions)
