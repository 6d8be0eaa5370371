"""Requests, weights, given samples and every kind of feature: the samples of DuckDB and Spark are those of NumPy."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.engines import assert_equal_to_numpy, on_engine, parameters, simulated_shop

from deep_interest.errors import InputError
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters

pytestmark = pytest.mark.cluster
PARTITIONS = (1, 3, 8)

SEQUENCES = {
    "bought": {"where": {"action": ["buy"]}, "behavior": ["item_id", "dwell", "gap"], "history_days": 5},
    "dear": {"where": {"rating": [4, 5]}, "behavior": ["category", "labels"], "max_len": 7, "delay": 3600},
}
SKIPPED = {
    "skipped": {"source": "impressions", "where": {"clicked": [0]}, "behavior": ["item_id", "clicked", "gap"], "history_days": 2},
    "shown": {"source": "impressions", "behavior": ["category", "clicked"], "delay": 86_400},
}  # fmt: skip
LATE = {
    "late": {"behavior": ["item_id", "grade", "hour"], "delay": 43_200}
}  # columns that the behaviours themselves have not
OWN = {
    "behavior": ["item_id", "category", "action", "dwell", "labels", "gap"],
    "multi_hot": {"labels": ","}, "standardised": ["dwell"],
}  # fmt: skip


def shop(*, impressions):
    """Return the simulated shop with sets of values and numbers of behaviours and impressions, requests and weights."""
    tables = simulated_shop(impressions=impressions, users=80)
    row = np.arange(len(tables.behaviors))
    sets = np.array(["a,b", "b", "c , a", None, "d,d"], object)
    behaviors = tables.behaviors.assign(labels=pd.Series(sets[row % 5], dtype="str"), grade=row % 6)
    if not impressions:
        return replace(tables, behaviors=behaviors)
    shown = tables.shown
    row = np.arange(len(shown))
    shown = shown.assign(
        request=pd.Series((shown["time"] // 43_200).astype(str), dtype="str"), weight=np.float32(row % 7) / 4,
        tags=pd.Series(np.array(["x|y", "z", None, "y|x|x"], object)[row % 4], dtype="str"), price=np.where(row % 9, row % 11 / 3, np.nan),
    )  # fmt: skip
    return replace(tables, behaviors=behaviors, impressions=shown)


def with_given_histories(tables, *, times):
    """Return impressions that give their splits and, as segments of the behaviours, their histories."""
    shown = tables.shown
    split = np.array(["train", "train", "validation", "train", "test"])[np.arange(len(shown)) % 5]
    shown = shown.assign(split=split)
    if times:
        return replace(tables, impressions=shown)
    behaviors = tables.behaviors.sort_values(["user", "time"], kind="stable").groupby("user").head(9)
    users = np.sort(behaviors["user"].unique())
    half = behaviors.groupby("user").cumcount() // 5  # two histories of each user
    segment = 1 + 2 * np.searchsorted(users, behaviors["user"]) + half
    position = behaviors.groupby(segment).cumcount()
    behaviors = behaviors.assign(segment=segment, time=position.astype(np.int64)).drop(
        columns="day", errors="ignore"
    )
    of_user = (
        1 + 2 * np.searchsorted(users, shown["user"]).clip(max=len(users) - 1) + np.arange(len(shown)) % 2
    )
    has_history = np.isin(of_user, behaviors["segment"]) & np.isin(shown["user"], users)
    lengths = behaviors["segment"].value_counts().reindex(of_user, fill_value=0).to_numpy()
    ends = np.where(has_history, np.minimum(lengths, np.arange(len(shown)) % 4), 0)
    shown = shown.assign(segment=np.where(has_history, of_user, 0), history_end=ends.astype(np.int32))
    return replace(tables, behaviors=behaviors.reset_index(drop=True), impressions=shown)


def unchecked(protocol, features):
    """Return parameters of a dataset whose source, which the checks of parameters look at, is not declared."""
    made = parameters({"name": "next_item"}, features)
    protocol = type(made.protocol).model_validate({**protocol, "sampling": "hashed"})
    return DatasetParameters.model_construct(**(dict(made) | {"protocol": protocol}))


def by_day():
    features = OWN | {
        "context": ["pid", "tags", "price"], "multi_hot": {"labels": ",", "tags": "|"}, "standardised": ["dwell", "price"],
        "sequences": SEQUENCES | SKIPPED,
    }  # fmt: skip
    protocol = {
        "name": "by_day",
        "list_negatives": 1,
        "auxiliary_negatives": "shown",
        "history_days": 7,
        "seed": 3,
    }
    return shop(impressions=True), unchecked(protocol, features)


def given():
    features = OWN | {"behavior": ["item_id", "action", "dwell", "labels"], "context": ["pid"]}
    tables = with_given_histories(shop(impressions=True), times=False)
    return tables, unchecked({"name": "given", "list_negatives": 2}, features)


def given_with_times():
    features = OWN | {
        "context": ["tags"],
        "multi_hot": {"labels": ",", "tags": "|"},
        "sequences": {"dear": SEQUENCES["dear"]},
    }
    return with_given_histories(shop(impressions=True), times=True), unchecked({"name": "given"}, features)


def next_item():
    features = OWN | {"sequences": SEQUENCES | LATE, "neighbours": 20}
    return shop(impressions=False), unchecked({"name": "next_item", "ties": "exclude"}, features)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(by_day, marks=pytest.mark.nightly),
        given,
        pytest.param(given_with_times, marks=pytest.mark.nightly),
        next_item,
    ],
)
def test_every_feature_has_the_samples_of_numpy_for_1_3_and_8_partitions(connection, make):
    tables, dataset = make()
    for partitions in PARTITIONS:
        made = on_engine(connection, tables, dataset, partitions=partitions)
        assert len(assert_equal_to_numpy(made, tables, dataset)) > 100


def test_a_sequence_without_events_is_an_error(duckdb):
    features = OWN | {"sequences": {"gone": {"where": {"action": ["gone"]}, "behavior": ["item_id"]}}}
    with pytest.raises(InputError, match=r"features.sequences.gone: none of the behaviors belongs to it"):
        on_engine(duckdb, shop(impressions=False), unchecked({"name": "next_item"}, features), partitions=2)


def test_list_negatives_need_requests(duckdb):
    tables = shop(impressions=True)
    tables = replace(tables, impressions=tables.shown.drop(columns="request"))
    with pytest.raises(InputError, match=r"protocol.list_negatives needs requests"):
        on_engine(duckdb, tables, unchecked({"name": "by_day", "list_negatives": 1}, {}), partitions=2)


def test_buckets_of_equal_size_have_the_borders_of_numpy(duckdb):
    rng = np.random.default_rng(0)
    tables = shop(impressions=False)
    dwell = rng.choice([1.5, 2.25, 7.0, np.nan], len(tables.behaviors)) + rng.integers(
        0, 3, len(tables.behaviors)
    )
    tables = CanonicalTables(tables.behaviors.assign(dwell=dwell), tables.items)
    features = {"behavior": ["item_id", "dwell"], "buckets": {"dwell": 6}}
    dataset = unchecked({"name": "next_item"}, features)
    assert_equal_to_numpy(on_engine(duckdb, tables, dataset, partitions=3), tables, dataset)
