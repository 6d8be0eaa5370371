"""The protocol ``given``: splits as the source gives them, negatives of the same list, and what the check says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.given import SOURCE, GivenRow, given_data, given_tables, random_rows
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.contracts import validate
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.impressions import days_and_splits, impression_samples
from deep_interest.logs.inspection import inspect_log, report_lines
from deep_interest.logs.negatives import list_negatives
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.pipelines.parameters import DatasetParameters

GIVEN = ProtocolParameters(name="given")
COLUMNS = FeatureColumns(item=("item_id", "category"), profile=("user_id",))


def test_the_summary_counts_rows_by_the_given_split():
    rows = random_rows()
    _, summary = given_data(given_tables(rows))
    counts = summary.set_index("split")["rows"]
    for split in ("train", "validation", "test"):
        assert counts[split] == sum(row.split == split for row in rows)
    histories = {(row.user, row.history) for row in rows if row.history}
    users_with_history = {user for user, _ in histories}
    everything = summary.set_index("split").loc["all"]
    assert everything["users"] == len(users_with_history)
    assert everything["behaviors"] == sum(len(history) for _, history in histories)


def test_samples_carry_segment_request_and_weight():
    rows = [
        GivenRow(1, 5, 1, "train", (2, 3), "a", 0.5),
        GivenRow(1, 6, 0, "train", (2, 3), "a", 1.5),
        GivenRow(1, 5, 0, "test", (2,), "b", 2.0),
        GivenRow(2, 5, 1, "test", (), "a", 1.0),
    ]
    data, _ = given_data(given_tables(rows))
    columns = ["user", "label", "history_end", "segment", "request", "weight", "split"]
    assert data.samples[columns].to_numpy().tolist() == [
        [1, 1, 2, 1, 0, 0.5, "train"],
        [1, 0, 2, 1, 0, 1.5, "train"],
        [1, 0, 1, 2, 1, 2.0, "test"],
        [2, 1, 0, 0, 2, 1.0, "test"],
    ]


def test_each_click_is_paired_with_other_items_of_its_list():
    """List 0: one click, five others; list 1: two clicks, one other; list 2: no click; list 3 is not sampled."""
    requests = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3])
    labels = np.array([0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0])
    sampled = requests < 3
    kept = list_negatives(requests, labels, sampled, 2, draws=np.random.default_rng(0))
    negatives = kept & (labels == 0)
    assert np.bincount(requests[negatives], minlength=4).tolist() == [2, 1, 0, 2]
    assert kept[labels == 1].all()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_lists_keep_as_many_negatives_as_their_clicks_allow(seed, per_click):
    rng = np.random.default_rng(seed)
    requests, labels, sampled = rng.integers(0, 8, 60), rng.integers(0, 2, 60), rng.random(60) < 0.8
    kept = list_negatives(requests, labels, sampled, per_click, draws=rng)
    assert kept[~sampled | (labels == 1)].all()
    for request in np.unique(requests):
        own = sampled & (requests == request)
        clicks, others = int((own & (labels == 1)).sum()), own & (labels == 0)
        assert kept[others].sum() == min(int(others.sum()), per_click * clicks)


def test_negatives_of_lists_are_sampled_for_training_alone():
    rows = random_rows(rows=400)
    every, _ = given_data(given_tables(rows))
    some, summary = given_data(given_tables(rows), list_negatives=1)
    held_out = [
        data.samples[data.samples["split"] != "train"].drop(columns="request") for data in (every, some)
    ]
    assert held_out[0].reset_index(drop=True).equals(held_out[1].reset_index(drop=True))
    train = some.samples[some.samples["split"] == "train"]
    per_list = train.groupby("request")["label"].agg(["sum", "size"])
    assert ((per_list["size"] - per_list["sum"]) <= per_list["sum"]).all()
    left_out = summary.set_index("reason")["rows"]
    reason = "training impressions that are not among the negatives of a click (protocol.list_negatives: 1)"
    assert left_out[reason] == len(every.samples) - len(some.samples)
    again, _ = given_data(given_tables(rows), list_negatives=1)
    other, _ = given_data(given_tables(rows), list_negatives=1, seed=1)
    assert some.samples.equals(again.samples)
    assert not some.samples.equals(other.samples)


def test_lists_can_be_split_by_day():
    day = 86_400
    impressions = [("u", item, number * day, item % 2) for number in range(4) for item in (1, 2, 3)]
    tables = tables_of([("u", 1, 0)], impressions=impressions)
    tables = replace(tables, impressions=tables.shown.assign(request=tables.shown["time"].astype(str)))
    protocol = ProtocolParameters(name="by_day", list_negatives=1)
    made = impression_samples(
        tables.shown, encoded(tables), protocol, features=FeatureColumns(item=("item_id",))
    )
    assert np.bincount(made.samples.split).tolist() == [6, 3, 3]
    used, days, splits = days_and_splits(tables.shown, protocol)
    assert len(used) == len(days) == len(splits) == 12


def test_negatives_of_lists_need_requests():
    tables = tables_of(
        [("u", 1, 0)], impressions=[("u", 1, number * 86_400, number % 2) for number in range(4)]
    )
    protocol = ProtocolParameters(name="by_day", list_negatives=1)
    with pytest.raises(InputError, match=r"protocol\.list_negatives needs requests"):
        impression_samples(
            tables.shown, encoded(tables), protocol, features=FeatureColumns(item=("item_id",))
        )


BLOCK = {"title": "T", "source": SOURCE, "protocol": {"name": "given"}, "features": {"item": ["item_id"]}}
ROWS = {"files": "x.csv"}
ORDERED = {"behaviors": {"files": "x.csv", "order": "file"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": {"impressions": ROWS}}, "protocol given uses the split of each row, but the source has none"),
        ({"protocol": {"name": "by_day"}}, r"source has order: file"),
        ({"source": {"impressions": ROWS | {"split": "fold"}}, "protocol": {"name": "by_day"}}, "but protocol by_day makes its own"),
        (
            {"source": {"impressions": ROWS | {"split": "fold"}}, "protocol": {"name": "given", "list_negatives": 4}},
            "list_negatives needs impressions that were shown together",
        ),
        ({"features": {"item": ["item_id"], "behavior": ["item_id", "gap"]}}, "gap needs the time of each behaviour"),
        ({"features": {"item": ["item_id"], "behavior": ["item_id", "hour"]}}, "hour needs the time of each behaviour"),
        ({"source": ORDERED, "protocol": {"name": "rated"}, "features": {"behavior": ["item_id", "gap"]}}, "gap needs the time"),
        (
            {"source": ORDERED, "protocol": {"name": "next_item"}, "features": {"behavior": ["item_id", "weekday"]}},
            "weekday needs the time of each behaviour, but the source has order: file",
        ),
        (
            {
                "source": ORDERED,
                "protocol": {"name": "next_item"},
                "features": {"sequences": {"recent": {"behavior": ["item_id"], "history_days": 3}}},
            },
            "features.sequences.recent compares times",
        ),
        (
            {"features": {"item": ["item_id"], "sequences": {"bought": {"behavior": ["item_id"]}}}},
            "features.sequences.bought compares the times of events with that of the sample",
        ),
        (
            {"features": {"item": ["item_id"], "sequences": {"seen": {"source": "impressions", "behavior": ["item_id"]}}}},
            "features.sequences.seen compares the times",
        ),
        (
            {
                "source": {"impressions": {"files": "x.csv", "history": "past"}},
                "protocol": {"name": "by_day", "auxiliary_negatives": "shown"},
            },
            "auxiliary_negatives: shown compares the times",
        ),
        (
            {
                "source": {"impressions": {"files": "x.csv", "history": "past"}},
                "protocol": {"name": "by_day", "history_days": 3},
            },
            "protocol.history_days compares the times",
        ),
        (
            {
                "source": {"impressions": ROWS | {"split": "fold"}},
                "features": {
                    "item": ["item_id"],
                    "sequences": {"seen": {"source": "impressions", "behavior": ["item_id"], "history_days": 3}},
                },
            },
            "seen.history_days counts days, but protocol given does not split by day",
        ),
        ({"protocol": {"name": "given", "list_negatives": 0}}, "greater than or equal to 1"),
    ],
)  # fmt: skip
def test_a_protocol_that_does_not_fit_the_source_is_refused(change, message):
    DatasetParameters.model_validate(BLOCK)
    with pytest.raises(ValueError, match=message):
        DatasetParameters.model_validate(BLOCK | change)


def test_the_check_describes_given_samples_without_comparing_times():
    tables = given_tables(random_rows(rows=400))
    validate(tables)
    inspection = inspect_log(tables, GIVEN, COLUMNS, has_times=False)
    assert inspection.days is None
    assert inspection.period is None
    assert inspection.counts["requests"] == 100
    assert inspection.counts["distinct histories"] == tables.behaviors["segment"].nunique()
    assert sum(inspection.history_lengths.values()) == 400
    assert inspection.warnings == ()
    assert "behaviours before an impression" in report_lines(inspection)


def test_the_check_warns_if_few_rows_have_a_history():
    rows = [GivenRow(user, 1 + user % 5, user % 2, "train", ()) for user in range(1, 30)]
    rows += [GivenRow(1, 2, user % 2, "test", (3,)) for user in range(1, 4)]
    (warning,) = [
        w for w in inspect_log(given_tables(rows), GIVEN, COLUMNS, has_times=False).warnings if "only" in w
    ]
    assert warning.endswith(
        "is source.impressions.history the right column, and does it have the right separator?"
    )


def test_the_contracts_check_given_columns():
    tables = given_tables(random_rows())
    wrong = tables.shown.assign(split="later", weight=np.float32(-1))
    with pytest.raises(InputError, match=r"impressions\.split.*later.*impressions\.weight"):
        validate(replace(tables, impressions=wrong))


def test_max_users_keeps_users_without_history():
    rows = [GivenRow(user, 1, user % 2, "train", (2,) if user < 5 else ()) for user in range(1, 21)]
    tables = given_tables(rows)
    some = canonical(tables, max_users=10)
    assert some.shown["user"].nunique() == 10
    assert set(some.behaviors["user"]) <= set(some.shown["user"])
