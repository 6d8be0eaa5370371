"""The requests of the parity audit: every kind that the service must score as batch scoring does."""

import numpy as np
import pandas as pd
from parity import Requests
from support.service import BEHAVIORS, COLUMNS, ITEMS, LOG_END

from deep_interest.logs.tables import CanonicalTables
from deep_interest.service.schemas import RankRequest

SHOWN = pd.DataFrame(
    {"user": ["ann"], "item": [10], "time": [1], "label": np.array([1], np.int8), "hour": [9]}
)


def test_all_kinds_of_requests_are_drawn_and_valid():
    drawn = Requests(CanonicalTables(BEHAVIORS, ITEMS, None, SHOWN), COLUMNS.context, seed=1)
    found = [RankRequest.model_validate(drawn.request()) for _ in range(300)]
    users, items = set(BEHAVIORS["user"]), set(ITEMS["item"])
    assert {of.user is None or of.user in users for of in found} == {True, False}
    assert any(of.history == [] for of in found)
    assert any(of.history for of in found)
    assert any(of.time is not None and of.time > LOG_END for of in found)
    ranked = [[candidate.item for candidate in of.candidates] for of in found]
    assert any(len(set(of)) < len(of) for of in ranked)
    assert any(not items.issuperset(of) for of in ranked)
    assert any(isinstance(of.context["hour"], list) for of in found)
    assert drawn.kinds["user known"] + drawn.kinds["user unknown"] + drawn.kinds["user without id"] == 300
    assert drawn.event(3)["time"] > LOG_END
