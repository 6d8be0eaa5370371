import numpy as np
import pytest
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import behavior_log, encode_behaviors, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.storage import load_features, load_log, save_features, save_log

LOG = BehaviorLog(np.array([0, 0, 5, 7]), {"item_id": np.arange(10, 17, dtype=np.int32)})


@pytest.mark.parametrize(
    ("user", "end", "max_len", "expected"),
    [(1, 5, 9, [10, 11, 12, 13, 14]), (1, 4, 2, [12, 13]), (1, 0, 9, []), (2, 1, 9, [15]), (0, 0, 9, [])],
)
def test_a_history_keeps_the_newest_behaviours_before_its_end(user, end, max_len, expected):
    assert list(LOG.history(user, end, max_len=max_len)["item_id"]) == expected


def test_log_and_features_come_back_from_disk_as_they_were(tmp_path):
    tables = tables_of([("u", 1, 1), ("u", 2, 2), ("v", 3, 1)])
    coded = encoded(tables)
    features = encode_features(tables, coded, FeatureColumns())
    log = behavior_log(coded, features)
    save_log(log, tmp_path / "log")
    save_features(features, tmp_path / "features")
    save_log(log, tmp_path / "log")  # an older folder is replaced
    again, features_again = load_log(tmp_path / "log"), load_features(tmp_path / "features")
    np.testing.assert_array_equal(again.offsets, log.offsets)
    assert features_again.schema == features.schema
    for name in ("item_id", "category"):
        np.testing.assert_array_equal(again.fields[name], log.fields[name])
        np.testing.assert_array_equal(features_again.items[name], features.items[name])


def test_a_feature_column_that_is_not_there_is_named():
    tables = tables_of([("u", 1, 1)])
    with pytest.raises(
        InputError,
        match=r"items: feature column\(s\) shop not found; the source has the columns item, category",
    ):
        encode_features(tables, encoded(tables), FeatureColumns(item=("item_id", "shop")))
    with pytest.raises(
        InputError, match=r"users: feature column\(s\) age not found; the source has no such table"
    ):
        encode_features(tables, encoded(tables), FeatureColumns(profile=("age",)))
    message = (
        r"features\.behavior: brand is neither an item field \(item_id, category\) nor a column of the behaviours \(user, item, time.*\), "
        "nor one of gap, position, hour, weekday$"
    )
    with pytest.raises(InputError, match=message):
        encode_behaviors(tables.behaviors, FeatureColumns(behavior=("item_id", "brand")))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (FeatureColumns(item=("item_id", "category"), context=("category",)), "category occurs twice"),
        (FeatureColumns(context=("time",)), "time is a reserved column of the samples"),
    ],
)
def test_feature_names_that_collide_are_refused(columns, message):
    tables = tables_of([("u", 1, 1)])
    with pytest.raises(InputError, match=message):
        encode_features(tables, encoded(tables), columns, context=dict.fromkeys(columns.context, 3))
