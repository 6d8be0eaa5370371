from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoding import behavior_log, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.history_ranges import history_ends
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import TEST, TRAIN, VALIDATION
from deep_interest.logs.tables import CanonicalTables

DAY = 86_400
BEHAVIORS = [("a", 1, 10), ("a", 2, DAY + 10), ("a", 3, 3 * DAY), ("b", 4, 5)]
SHOWN = [
    ("a", 1, 9, 0, "top"), ("a", 2, 10, 1, "top"), ("a", 3, DAY + 11, 0, "side"),
    ("b", 5, 2 * DAY, 1, "top"), ("a", 6, 3 * DAY, 1, "bottom"), ("new", 1, 3 * DAY + 1, 0, "top"),
]  # fmt: skip
BY_DAY = ProtocolParameters(name="by_day")


def make(protocol=BY_DAY, shown=SHOWN):
    tables = tables_of(BEHAVIORS, impressions=shown)
    log = encoded(tables)
    return (
        tables,
        log,
        impression_samples(tables.impressions, log, protocol, features=FeatureColumns(context=("pid",))),
    )


def test_a_history_ends_strictly_before_the_impression():
    tables, _, made = make()
    ends = dict(
        zip(
            zip(tables.impressions["user"], tables.impressions["time"], strict=True),
            made.samples.history_end,
            strict=True,
        )
    )
    assert ends == {
        ("a", 9): 0,
        ("a", 10): 0,
        ("a", DAY + 11): 2,
        ("b", 2 * DAY): 1,
        ("a", 3 * DAY): 2,
        ("new", 3 * DAY + 1): 0,
    }


def test_the_last_day_tests_the_day_before_validates_the_rest_trains():
    tables, _, made = make()
    day = (tables.impressions["time"] // DAY).to_numpy()
    np.testing.assert_array_equal(made.samples.split, np.array([TRAIN, TRAIN, VALIDATION, TEST])[day])


def test_a_day_may_begin_at_the_local_midnight():
    shown = [("a", 1, 0, 0, "x"), ("a", 1, DAY - 3600, 1, "x"), ("b", 1, 2 * DAY, 0, "x")]
    _, _, made = make(ProtocolParameters(name="by_day", day_offset=3600), shown)
    assert list(made.samples.split) == [TRAIN, VALIDATION, TEST]


def test_vocabularies_know_the_training_days_only():
    tables, log, made = make()
    features = encode_features(
        tables,
        log,
        FeatureColumns(context=("pid",)),
        known_items=made.known_items,
        known_users=made.known_users,
        context=made.context,
    )
    seen = {
        "item_id": 4,
        "category": 3,
    }  # items 1-3, in training samples (3 only as a candidate), and "unknown"; no training history has b's item 4
    assert {field.name: field.size for field in features.schema.item}["item_id"] == seen["item_id"]
    by_item = dict(zip(log.items.values, features.items["item_id"][1:], strict=True))
    assert by_item[4] == by_item[5] == by_item[6] == 0
    assert sorted([by_item[1], by_item[2], by_item[3]]) == [1, 2, 3]
    pid = dict(zip(tables.impressions["pid"], made.columns["pid"], strict=True))
    assert pid["bottom"] == 0
    assert made.context["pid"].field.size == 3


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=40),
    st.sampled_from([1, 1000, 10**15]),
)
@pytest.mark.slow
def test_history_ends_agree_with_counting(events, scale):
    tables = tables_of([(user, k + 1, time * scale) for k, (user, time) in enumerate(events)])
    log = encoded(tables)
    user = np.repeat(np.arange(len(log.users)), 12)
    time = np.tile(np.arange(-1, 11), len(log.users)) * scale
    expected = [
        sum(1 for u, t in zip(log.user, log.time, strict=True) if u == who and t < when)
        for who, when in zip(user, time, strict=True)
    ]
    np.testing.assert_array_equal(history_ends(log, user, time), expected)


def test_changing_the_future_changes_no_history_before_it():
    tables, _, made = make()
    later = [(*row[:2], row[2] + (DAY if row[2] >= 3 * DAY else 0)) for row in BEHAVIORS] + [
        ("a", 5, 9 * DAY)
    ]
    changed = encoded(tables_of(later, impressions=SHOWN))
    early = (tables.impressions["time"] < 3 * DAY).to_numpy()
    user, time = changed.users.encode(tables.impressions["user"]), tables.impressions["time"].to_numpy()
    np.testing.assert_array_equal(history_ends(changed, user, time)[early], made.samples.history_end[early])


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (SHOWN[:3], "2 distinct days"),
        ([("a", 1, 1, 2, "x"), *SHOWN], "1 values are not 0 or 1, the first is 2"),
        ([row[:4] for row in SHOWN], r"column\(s\) pid not found"),
    ],
)
def test_unusable_impressions_give_one_clear_error(shown, message):
    with pytest.raises(InputError, match=message):
        make(shown=shown)


def test_the_true_probability_travels_with_its_impression():
    tables = tables_of(BEHAVIORS, impressions=SHOWN)
    shown = tables.impressions.assign(true_probability=np.linspace(0, 1, len(SHOWN)))
    made = impression_samples(shown, encoded(tables), BY_DAY, features=FeatureColumns())
    np.testing.assert_allclose(made.columns["true_probability"], np.linspace(0, 1, len(SHOWN)))
    assert isinstance(made.samples.frame(), pd.DataFrame)


def days_of_split(protocol):
    shown = [("a", 1, day * DAY + 5, day % 2, "x") for day in range(8)]
    _, _, made = make(protocol, shown)
    return {
        split: sorted((made.samples.time[made.samples.split == split] // DAY).tolist()) for split in range(3)
    }, made.samples.left_out


def test_only_the_last_train_days_train_and_the_earlier_are_counted():
    days, left_out = days_of_split(BY_DAY.model_copy(update={"train_days": 3, "test_days": 2}))
    assert days == {TRAIN: [2, 3, 4], VALIDATION: [5], TEST: [6, 7]}
    assert left_out == {"impressions before the training days (protocol.train_days: 3)": 2}


def test_a_log_may_end_on_an_earlier_day():
    days, left_out = days_of_split(BY_DAY.model_copy(update={"last_day": date(1970, 1, 5)}))
    assert days == {TRAIN: [0, 1, 2], VALIDATION: [3], TEST: [4]}
    assert left_out == {"impressions after protocol.last_day (1970-01-05)": 3}


def test_the_sources_own_day_goes_before_that_of_the_time():
    tables = tables_of(BEHAVIORS, impressions=SHOWN)
    shown = tables.impressions.assign(day=np.int32([5, 5, 5, 6, 7, 7]))
    made = impression_samples(shown, encoded(tables), BY_DAY, features=FeatureColumns())
    assert list(made.samples.split) == [TRAIN, TRAIN, TRAIN, VALIDATION, TEST, TEST]


def test_numbers_in_context_are_bucketed_between_quantiles_of_the_training_days():
    tables = tables_of(BEHAVIORS, impressions=SHOWN)
    shown = tables.impressions.assign(position=np.arange(6.0))
    features = FeatureColumns(context=("position",), buckets={"position": [2, 5]})
    made = impression_samples(shown, encoded(tables), BY_DAY, features=features)
    train = made.samples.split == TRAIN
    known = np.unique(np.searchsorted([2, 5], np.arange(6.0)[train], side="right"))
    assert made.context["position"].field.size == len(known) + 1


@pytest.mark.slow
def test_a_million_behaviours_of_one_user_are_one_run_of_the_log():
    n = 1_000_000
    time = np.random.default_rng(0).permutation(n)
    behaviors = pd.DataFrame({"user": 1, "item": time % 1000 + 1, "time": time})
    shown = pd.DataFrame({"user": 1, "item": 1, "time": [0, 500_000, n], "label": 1})
    items = pd.DataFrame({"item": np.arange(1, 1001), "category": "c"})
    tables = canonical(CanonicalTables(behaviors, items, None, shown))
    log = encoded(tables)
    made = impression_samples(
        tables.impressions,
        log,
        ProtocolParameters(name="by_day", day_seconds=n // 4),
        features=FeatureColumns(),
    )
    assert made.samples.history_end.tolist() == [0, 500_000, n]
    coded = behavior_log(log, encode_features(tables, log, FeatureColumns(item=("item_id",))))
    assert coded.history(1, 500_000, max_len=3)["item_id"].tolist() == [998, 999, 1000]


def test_uncovered_context_values_are_those_of_the_held_out_days_and_missing_ones_are_none():
    """SHOWN has one validation row ('top', known) and two test rows: 'bottom', which training lacks, and one without a value."""
    shown = [*SHOWN[:-1], (*SHOWN[-1][:4], None)]
    (found,) = make(shown=shown)[2].uncovered
    assert (found.field, found.split, found.values, found.share) == ("pid", "test", ("bottom",), 0.5)
    assert make(shown=[row for row in SHOWN if row[-1] != "bottom"])[2].uncovered == ()
