"""Further sequences of behaviours: which events a sample sees, checked event by event."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.logs import encoded

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoding import behavior_log, encode_behaviors, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.history_ranges import Calendar, history_begins, history_ends
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import catalogue_samples
from deep_interest.logs.sequences import SampleTimes, encode_sequences, shown_negatives
from deep_interest.logs.storage import load_log, save_log
from deep_interest.logs.tables import CanonicalTables

DAY = 86_400
ACTIONS = ("view", "cart", "purchase")


def random_tables(seed, *, users=4, behaviors=60, impressions=40):
    """Behaviours with actions and impressions over ten days, with many ties."""
    rng = np.random.default_rng(seed)

    def times(n):
        return rng.integers(0, 40, n) * (DAY // 4)

    done = pd.DataFrame(
        {
            "user": rng.integers(1, users + 1, behaviors), "item": rng.integers(1, 9, behaviors), "time": times(behaviors),
            "action": rng.choice(ACTIONS, behaviors),
        }
    )  # fmt: skip
    shown = pd.DataFrame(
        {
            "user": rng.integers(1, users + 1, impressions), "item": rng.integers(1, 9, impressions), "time": times(impressions),
            "label": rng.integers(0, 2, impressions).astype(np.int8),
        }
    )  # fmt: skip
    items = pd.DataFrame({"item": range(1, 9), "category": list("aabbccdd")})
    return canonical(CanonicalTables(done, items, None, shown))


def made(tables, declared, **protocol):
    """Samples of the impressions with the ranges of the sequences, and the logs."""
    columns = FeatureColumns.model_validate(
        {"behavior": ["item_id", "category", "action"], "sequences": {"more": declared}}
    )
    log = encoded(tables)
    result = impression_samples(
        tables.impressions, log, ProtocolParameters(name="by_day", **protocol), features=columns
    )
    own = encode_behaviors(tables.behaviors, columns)
    features = encode_features(tables, log, columns, own=own)
    times = SampleTimes(result.samples.user, result.samples.time, result.day)
    return log, result.samples, encode_sequences(
        columns, log, tables.behaviors, tables.impressions, features=features, own=own, samples=times, calendar=Calendar(DAY)
    )  # fmt: skip


def seen(sequences, samples, row, *, field="item_id"):
    """The codes that a sample sees of the sequence, oldest first."""
    log = sequences.logs["more"]
    start = log.offsets[samples.user[row]]
    begin, end = (int(sequences.columns[f"history_{which}.more"][row]) for which in ("begin", "end"))
    return log.fields[field][start + begin : start + end].tolist()


DECLARED = [
    {"behavior": ["item_id", "action"], "where": {"action": ["cart", "purchase"]}},
    {"behavior": ["item_id", "gap"], "where": {"action": ["view"]}, "history_days": 2},
    {"behavior": ["item_id"], "delay": DAY // 2},
    {"source": "impressions", "behavior": ["item_id", "clicked"]},
    {"source": "impressions", "behavior": ["item_id"], "where": {"clicked": [0]}, "history_days": 1, "delay": 3 * DAY // 4},
]  # fmt: skip


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sample_sees_the_selected_events_before_its_time_that_are_logged_and_not_too_old(declared, seed):
    tables = random_tables(seed)
    log, samples, sequences = made(tables, declared)
    shown = declared.get("source") == "impressions"
    events = tables.impressions if shown else tables.behaviors
    column = "clicked" if shown else "action"
    events = events.rename(columns={"label": "clicked"})
    wanted = declared.get("where", {}).get(column)
    events = events if wanted is None else events[events[column].isin(wanted)]
    delay, days = declared.get("delay", 0), declared.get("history_days")
    ids = log.items.values
    for row in range(len(samples.user)):
        user, time = log.users.values[samples.user[row] - 1], samples.time[row]
        expected = [
            event
            for event in events.itertuples()
            if event.user == user and event.time < time and event.time <= time - delay
            and (days is None or event.time // DAY >= time // DAY - days)
        ]  # fmt: skip
        found = seen(sequences, samples, row)
        assert [ids[code - 1] for code in found] == [event.item for event in expected]
        if shown and "clicked" in declared["behavior"]:
            assert seen(sequences, samples, row, field="clicked") == [event.clicked + 1 for event in expected]


LATE = {"behavior": ["item_id", "dwell", "hour"], "delay": DAY // 2}


def test_a_sequence_can_have_columns_that_the_behaviours_have_not():
    """A dwell time that is known late is seen in a sequence with a delay, and nowhere else."""
    tables = random_tables(4)
    dwell = np.random.default_rng(0).integers(0, 5, len(tables.behaviors))
    tables = replace(tables, behaviors=tables.behaviors.assign(dwell=dwell))
    log, samples, sequences = made(tables, LATE)
    assert [field.name for field in sequences.schemas["more"].behavior] == ["item_id", "dwell", "hour"]
    for row in range(len(samples.user)):
        user, time = log.users.values[samples.user[row] - 1], samples.time[row]
        done = tables.behaviors
        events = done[(done["user"] == user) & (done["time"] <= time - DAY // 2)]
        assert (
            seen(sequences, samples, row, field="dwell") == (events["dwell"] + 1).tolist()
        )  # codes are those of sorted values
    columns = FeatureColumns.model_validate({"behavior": ["item_id"], "sequences": {"more": LATE}})
    own = encode_behaviors(tables.behaviors, columns)
    features = encode_features(tables, log, columns, own=own)
    assert list(behavior_log(log, features, own).fields) == ["item_id"]
    assert [field.name for field in features.schema.behavior] == ["item_id"]


def test_a_column_of_a_sequence_that_the_behaviours_have_not_is_named():
    with pytest.raises(InputError, match=r"features\.sequences\.more\.behavior: dwell is neither"):
        made(random_tables(4), LATE)


@pytest.mark.parametrize("declared", DECLARED)
def test_changing_the_future_changes_nothing_that_a_sample_sees(declared):
    """Items, actions and labels from a day on are shuffled; samples before that day see what they saw."""
    tables, rng = random_tables(3), np.random.default_rng(0)
    cut = 6 * DAY
    _, samples, before = made(tables, declared)
    changed = {}
    for name in ("behaviors", "impressions"):
        table = getattr(tables, name).copy()
        late = (table["time"] >= cut).to_numpy()
        for column in {"item", "action", "label"} & set(table):
            table.loc[late, column] = rng.permutation(table.loc[late, column].to_numpy())
        changed[name] = table
    other = CanonicalTables(changed["behaviors"], tables.items, None, changed["impressions"])
    _, samples_after, after = made(other, declared)
    early = np.flatnonzero(samples.time <= cut)
    assert len(early) > 10
    for row in early:
        assert seen(before, samples, row) == seen(after, samples_after, row)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), min_size=1, max_size=25), st.integers(1, 12)
)
def test_history_days_and_ends_agree_with_counting(events, days):
    rows = sorted(events)
    frame = pd.DataFrame(rows, columns=["user", "time"]).assign(item=range(1, len(rows) + 1))
    items = pd.DataFrame({"item": frame["item"], "category": "a"})
    log = Calendar(4).with_days(encoded(CanonicalTables(frame, items)))
    user = log.users.encode(pd.Series([1, 2, 3, 3]))
    time = np.array([7, 30, 0, 15])
    begins, ends = history_begins(log, user, time // 4, days), history_ends(log, user, time)
    for k, own in enumerate((1, 2, 3, 3)):
        assert ends[k] == (0 if user[k] == 0 else sum(u == own and t < time[k] for u, t in rows))
        old = sum(u == own and t // 4 < time[k] // 4 - days for u, t in rows)
        assert begins[k] == (0 if user[k] == 0 else old)


def test_the_protocol_bounds_the_days_of_a_history():
    """Of behaviours on days 0, 3 and 5 the last is a target: two days before it are 3 and 4."""
    rows = [
        (1, 1, 0),
        (1, 2, 3 * DAY),
        (1, 3, 5 * DAY),
        (2, 1, 0),
        (2, 2, DAY),
        (2, 3, 5 * DAY),
        (3, 1, 0),
        (3, 2, 5),
        (3, 4, 9),
    ]
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    log = encoded(CanonicalTables(frame, pd.DataFrame({"item": range(1, 9), "category": "a"})))
    protocol = ProtocolParameters(
        name="last_item", history_days=2, test_users=0.4, validation_users=0.5, negative_pool="catalogue"
    )
    samples = catalogue_samples(log, protocol)
    by_user = dict(zip(samples.user.tolist(), samples.history_begin.tolist(), strict=True))
    assert by_user == {1: 1, 2: 2, 3: 0}
    assert "history_begin" in samples.frame()


def test_a_negative_was_shown_before_the_behaviour_and_not_clicked():
    tables = random_tables(5, behaviors=200, impressions=300)
    log = encoded(tables)
    negatives = shown_negatives(log, tables.impressions, seed=0)
    assert (negatives > 0).mean() > 0.5
    ids, shown = log.items.values, tables.impressions
    for row, (event, code) in enumerate(zip(tables.behaviors.itertuples(), negatives, strict=True)):
        earlier = shown[(shown["user"] == event.user) & (shown["time"] < event.time) & (shown["label"] == 0)]
        if code == 0:
            assert earlier.empty or event.item in set(earlier["item"])
        else:
            assert ids[code - 1] in set(earlier["item"].tail(20))
            assert code != log.item[row]
    assert (shown_negatives(log, tables.impressions, seed=0) == negatives).all()
    assert (shown_negatives(log, tables.impressions, seed=1) != negatives).any()


def test_a_log_with_sequences_is_saved_and_loaded(tmp_path):
    _, _, sequences = made(random_tables(0), DECLARED[1])
    log = sequences.logs["more"]
    whole = type(log)(log.offsets, log.fields, None, np.arange(log.behaviors, dtype=np.int32), {"more": log})
    save_log(whole, tmp_path / "log")
    found = load_log(tmp_path / "log")
    np.testing.assert_array_equal(found.negatives, whole.negatives)
    assert found.times is None
    more = found.sequences["more"]
    np.testing.assert_array_equal(more.times, log.times)
    for name, codes in log.fields.items():
        np.testing.assert_array_equal(more.fields[name], codes)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"behavior": ["item_id"], "where": {"action": ["wish"]}}, r"features\.sequences\.more: none of the 58 behaviors belongs to it \(action has "),
        ({"behavior": ["item_id"], "where": {"acton": ["cart"]}}, r"features\.sequences\.more\.where: acton is not a column of the behaviours \(user, item, time, action\)"),
    ],
)  # fmt: skip
def test_a_sequence_without_events_is_named(declared, message):
    with pytest.raises(InputError, match=message):
        made(random_tables(0), declared)


def test_a_sequence_of_impressions_needs_impressions():
    tables = random_tables(0)
    columns = FeatureColumns.model_validate(
        {"sequences": {"skipped": {"source": "impressions", "behavior": ["item_id"]}}}
    )
    log = encoded(tables)
    features = encode_features(tables, log, columns)
    times = SampleTimes(log.user, log.time, log.time // DAY)
    with pytest.raises(
        InputError, match=r"features\.sequences\.skipped: source: impressions needs impressions"
    ):
        encode_sequences(
            columns,
            log,
            tables.behaviors,
            None,
            features=features,
            own={},
            samples=times,
            calendar=Calendar(DAY),
        )


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"behavior": ["action"]}, "behavior: found action, but a behaviour needs at least one of the item features item_id, category"),
        ({"sequences": {"carts": {"behavior": ["action"]}}}, "sequences.carts.behavior: found action, but a behaviour needs"),
        ({"sequences": {"s": {"source": "impressions", "behavior": ["item_id", "dwell"]}}}, "sequences.s.behavior: dwell is not a feature of these impressions"),
        ({"sequences": {"a b": {"behavior": ["item_id"]}}}, "sequences: 'a b' is not a valid name"),
        ({"sequences": {"s": {"source": "impressions", "behavior": ["item_id"], "where": {"pid": [1]}}}}, "s.where: pid is not a column by which"),
        ({"behavior": ["item_id", "gap"], "buckets": {"gap": 3}}, "gap is computed and has buckets of its own"),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_work_is_explained(block, message):
    with pytest.raises(ValidationError, match=message):
        FeatureColumns.model_validate(block)


@pytest.mark.parametrize(
    "columns",
    [
        {"context": ("position",), "behavior": ("item_id", "position")},
        {"profile": ("gap",), "behavior": ("item_id", "gap")},
        {"context": ("position",), "sequences": {"shown": {"source": "impressions", "behavior": ("item_id", "position")}}},
        {"context": ("clicked",), "sequences": {"shown": {"source": "impressions", "behavior": ("item_id", "clicked")}}},
    ],
)  # fmt: skip
def test_a_column_cannot_have_the_name_of_a_computed_feature(columns):
    with pytest.raises(ValueError, match="computed for behaviours, but a column of items, users or impress"):
        FeatureColumns.model_validate(columns)
    FeatureColumns.model_validate(columns | {"context": ("hour",), "profile": ("age",)})
