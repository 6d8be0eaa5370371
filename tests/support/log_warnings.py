"""Small logs of impressions and behaviours, and the warnings about them."""

import numpy as np
import pandas as pd

from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.suspicions import suspicions
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary

HOUR, DAY = 3_600, 86_400
START = 19_000 * DAY  # 2022-01-08
YEAR = 366 * DAY
OTHER = 999  # an item that is never shown
BY_DAY = ProtocolParameters(name="by_day")


def warnings_of(behaviors, shown, *, items=None, users=None, repeated=False, protocol=BY_DAY, **features):
    """The warnings about ``(user, item, time)`` and ``(user, item, time, label)`` rows or tables."""
    if not isinstance(behaviors, pd.DataFrame):
        behaviors = pd.DataFrame(behaviors, columns=["user", "item", "time"])
    if not isinstance(shown, pd.DataFrame):
        shown = pd.DataFrame(shown, columns=["user", "item", "time", "label"])
    if items is None:
        items = pd.DataFrame({"item": np.union1d(behaviors["item"], shown["item"])})
    tables = canonical(CanonicalTables(behaviors, items, users, shown), repeated_impressions=repeated)
    ids = Vocabulary.fit(tables.behaviors["user"], tables.impressions["user"])
    log = encode_log(tables, users=ids, items=Vocabulary.fit(tables.items["item"]))
    columns = FeatureColumns(**{"item": ("item_id",)} | features)
    return list(suspicions(tables, log, protocol, columns))


def shown_at(times, *, users=None, **columns):
    """An impression at each time, half of them clicked, each of an item of its own."""
    n = len(times)
    label = np.isin(np.arange(n) % 4, (1, 2)).astype(int)
    return pd.DataFrame(
        {"user": np.arange(n) if users is None else users, "item": np.arange(n), "time": np.asarray(times), "label": label}
        | columns
    )  # fmt: skip


def long_before(shown, ticks=1):
    """A behaviour of each user with an item that is not shown, two days before the first impression."""
    users = np.unique(shown["user"])
    return pd.DataFrame({"user": users, "item": OTHER, "time": shown["time"].min() - 2 * DAY * ticks})


def quiet(n=60, **columns):
    """Behaviours and impressions that give no warning: ``n`` impressions over three days, two of each user."""
    times = START + np.arange(n) * 3 * DAY // n
    shown = shown_at(times, users=np.arange(n) // 2, **columns)
    return long_before(shown), shown
