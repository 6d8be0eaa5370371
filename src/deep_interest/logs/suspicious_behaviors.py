"""Warnings about behaviours: items without features, ratings that give a single label, and outcomes that are known too late."""

from collections.abc import Iterator

import pandas as pd

from deep_interest.logs.feature_columns import ITEM_ID, TIME_FEATURES, FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables

_WITHOUT_FEATURES = 0.5  # share of events
_SAME_EVENTS = 0.5  # share of the behaviours that are clicks of the impressions


def items_without_features(tables: CanonicalTables, features: FeatureColumns) -> Iterator[str]:
    """Warn if most events have items without features, as if the item table had other ids."""
    names = [name for name in features.item if name != ITEM_ID and name in tables.items]
    if not names:
        return
    empty = tables.items.loc[tables.items[names].isna().all(axis=1), "item"]
    for table in ("behaviors", "impressions"):
        events = getattr(tables, table)
        share = 0.0 if events is None else float(events["item"].isin(empty).mean())
        if share >= _WITHOUT_FEATURES:
            yield f"{share:.1%} of the {table} have items without any feature: do both tables use the same item ids?"


def ratings_with_one_label(behaviors: pd.DataFrame, protocol: ProtocolParameters) -> Iterator[str]:
    """Warn if all samples of the protocol ``rated`` have the same label."""
    if protocol.name != "rated" or "rating" not in behaviors:
        return
    lowest, highest = behaviors["rating"].min(), behaviors["rating"].max()
    if lowest >= protocol.positive_rating or highest < protocol.positive_rating:
        yield (
            f"every label is {int(lowest >= protocol.positive_rating)}: the ratings are between {lowest:g} and {highest:g}, and those "
            f"from protocol.positive_rating, {protocol.positive_rating:g}, are positive"
        )


def outcomes_of_clicks(tables: CanonicalTables, features: FeatureColumns) -> Iterator[str]:
    """Warn about columns of behaviours that are clicks of the impressions: they may be known only after the next impression."""
    own = [name for name in features.own if name in tables.behaviors and name not in TIME_FEATURES]
    if not own or tables.impressions is None:
        return
    event = ["user", "item", "time"]
    clicks = tables.shown.loc[tables.shown["label"] == 1, event].drop_duplicates()
    during = tables.behaviors[tables.behaviors["time"] >= tables.shown["time"].min()]
    if not len(during):
        return
    if len(during.merge(clicks, on=event)) / len(during) >= _SAME_EVENTS:
        yield (
            f"features.behavior: {', '.join(own)} describe clicks of these impressions, and a click is in the history of the user's next "
            "impression: is the value known by then? A dwell time may not be; if so, move the column to a sequence with a delay, "
            f"such as features.sequences: {{late: {{behavior: [{features.item[0]}, {own[0]}], delay: 600}}}}"
        )
