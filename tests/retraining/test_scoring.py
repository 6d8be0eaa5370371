"""Who is scored with what: codes, contexts and bids of a champion that knows only part of today's log."""

import numpy as np
import pandas as pd
import pytest
from support.logs import tables_of

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.parameters import ScoringParameters
from deep_interest.retraining.scoring import encode_request

TABLES = tables_of([("b", 1, 5), ("a", 2, 6), ("a", 3, 7)], items=4)
FEATURES = FeatureColumns(item=("item_id", "category"), context=("place", "hour"))
CONTEXT = ScoringParameters(context={"place": "top", "hour": 9})


class Champion:
    """A version that knows the items 1 and 2, both places and the hours 9 and 10."""

    id = "2024-03-14-1f0c2a9b"

    def vocabularies(self):
        fields = FieldVocabularies()
        known = {
            "item_id": [1, 2],
            "category": TABLES.items["category"],
            "place": ["side", "top"],
            "hour": [9, 10],
        }
        for name, values in known.items():
            fields.learn(name, pd.Series(values))
        return fields


def coded(users=None, candidates=None, *, scoring=CONTEXT, features=FEATURES):
    return encode_request(TABLES, users, candidates, features, scoring, Champion())


def test_all_users_of_the_log_and_all_items_with_a_bid_of_one_are_scored_by_default(caplog):
    today = coded()
    assert today.request.users.tolist() == ["a", "b"]
    assert today.request.user_codes.tolist() == [1, 2]
    assert today.request.items.tolist() == [1, 2, 3, 4]
    assert today.request.item_codes.tolist() == [1, 2, 3, 4]
    assert today.request.bids.tolist() == [1.0] * 4
    assert {name: codes.tolist() for name, codes in today.request.context.items()} == {
        "place": [2, 2],
        "hour": [1, 1],
    }
    assert today.log.offsets.tolist() == [0, 0, 2, 3]
    assert today.log.fields["item_id"].tolist() == [2, 0, 1]  # the champion does not know item 3
    assert today.features.items["item_id"].tolist() == [0, 1, 2, 0, 0]
    assert [field.size for field in today.features.schema.context] == [3, 3]
    assert not caplog.records


def test_a_users_own_context_goes_before_the_configured_one():
    users = pd.DataFrame({"user": ["b", "a"], "place": ["side", "elsewhere"]}, index=[7, 3])
    today = coded(users)
    assert today.request.users.tolist() == ["b", "a"]
    assert today.request.users.index.tolist() == [0, 1]
    assert today.request.user_codes.tolist() == [2, 1]
    assert {name: codes.tolist() for name, codes in today.request.context.items()} == {
        "place": [1, 0],
        "hour": [1, 1],
    }


def test_candidates_have_bids_and_unknown_ones_are_counted(caplog):
    candidates = pd.DataFrame({"item": [9, 2, 8], "bid": [0.5, 2, 1]}, index=[5, 6, 7])
    users = pd.DataFrame({"user": ["stranger", "a"]})
    today = coded(users, candidates)
    assert today.request.items.tolist() == [9, 2, 8]
    assert today.request.items.index.tolist() == [0, 1, 2]
    assert today.request.item_codes.tolist() == [0, 2, 0]
    assert today.request.bids.tolist() == [0.5, 2.0, 1.0]
    assert today.request.bids.dtype == np.float64
    assert today.request.user_codes.tolist() == [0, 1]
    counts = [record.getMessage().split(": ")[1].split(",")[0] for record in caplog.records]
    assert counts == ["1 of 2", "2 of 3"]


def test_context_values_that_no_training_day_had_are_reported(caplog):
    today = coded(scoring=ScoringParameters(context={"place": "top", "hour": 11}))
    assert today.request.context["hour"].tolist() == [0, 0]
    (record,) = caplog.records
    assert record.getMessage() == (
        "context feature hour: version 2024-03-14-1f0c2a9b has not seen the value of 2 of 2 users in training; "
        "scored as unknown"
    )


@pytest.mark.parametrize(
    ("users", "candidates", "message"),
    [
        ({"name": ["a"]}, None, "users: column user not found; the table has name"),
        ({"user": ["a", "a"]}, None, r"users\.user: "),
        ({"user": ["a", None]}, None, r"users\.user: "),
        (None, {"id": [1], "bid": [1]}, "candidates: column item not found; the table has id, bid"),
        (None, {"item": [1, 1]}, r"candidates\.item: "),
        (None, {"item": [1, 2], "bid": [1, 0]}, r"candidates\.bid: found 0\.0"),
        (None, {"item": [1, 2, 3], "bid": [1, np.nan, -2]}, r"candidates\.bid: found nan"),
    ],
)
def test_tables_that_cannot_be_scored_are_refused(users, candidates, message):
    frames = (None if table is None else pd.DataFrame(table) for table in (users, candidates))
    with pytest.raises(InputError, match=message):
        coded(*frames)


def test_a_context_feature_without_any_value_is_named():
    with pytest.raises(InputError, match="context feature hour: "):
        coded(scoring=ScoringParameters(context={"place": "top"}))
