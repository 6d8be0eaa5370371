"""DuckDB and Spark, with any number of partitions and any order of the rows, make the samples that NumPy makes."""

import numpy as np
import pandas as pd
import pytest
from support.engines import assert_equal_to_numpy, on_engine, parameters, simulated_shop
from support.tables import read

from deep_interest.errors import InputError
from deep_interest.logs.canonical import canonical
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables

pytestmark = pytest.mark.cluster

BEHAVIORS = {
    "item": ["item_id", "category"],
    "behavior": ["item_id", "category", "action", "dwell", "hour", "gap"],
    "buckets": {"dwell": 5},
}
IMPRESSIONS = {
    **BEHAVIORS,
    "profile": ["user_id", "gender"],
    "context": ["pid", "hour"],
    "buckets": {"dwell": 5, "hour": 4},
}
PROTOCOLS = [
    {"name": "next_item"},
    {"name": "last_item", "test_users": 0.2, "validation_users": 0.2},
    {"name": "rated", "history_days": 3},
    {"name": "by_day"},
]  # fmt: skip


def features_of(protocol):
    if protocol["name"] != "by_day":
        return BEHAVIORS
    return {**IMPRESSIONS, "behavior": ["item_id", "category", "action", "dwell", "gap"]}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol["name"])
def test_samples_are_those_of_numpy_for_1_3_and_8_partitions(duckdb, spark, protocol):
    tables = simulated_shop(impressions=protocol["name"] == "by_day")
    dataset = parameters(protocol, features_of(protocol))
    for connection, partitions in [(duckdb, 1), (duckdb, 3), (duckdb, 8), (spark, 1), (spark, 3), (spark, 8)]:
        made = on_engine(connection, tables, dataset, partitions=partitions)
        assert len(assert_equal_to_numpy(made, tables, dataset)) > 100


def drawn(seed):
    """Draw a protocol with options of its own."""
    rng = np.random.default_rng(seed)

    def one(*values):
        return values[rng.integers(len(values))]

    protocol = {"name": one("next_item", "last_item", "rated", "by_day"), "seed": int(rng.integers(100))}
    protocol["history_days"] = one(None, 2, 7)
    if protocol["name"] == "by_day":
        protocol |= {"train_days": one(None, 2, 4), "validation_days": one(0, 1, 2), "test_days": one(1, 2)}
        return protocol
    protocol |= {
        "ties": one("before", "exclude"),
        "test_users": one(0.1, 0.35),
        "validation_users": one(0.15, 0.3),
    }
    protocol |= {"min_behaviors": one(2, 3, 8), "positive_rating": one(3.6, 4.0)}
    protocol |= {"negatives": one("uniform", "popularity"), "negative_pool": one("trained", "catalogue")}
    if protocol["name"] != "rated":
        protocol["targets"] = one({}, {"action": ["view", "buy"]}, {"rating": [4, 5]})
    if protocol["name"] == "next_item":
        protocol["mode"] = one("validated", "paper")
    return protocol


@pytest.mark.parametrize("seed", range(30))
def test_30_drawn_configurations_have_the_same_samples_on_duckdb_and_spark(duckdb, spark, seed):
    protocol = drawn(seed)
    tables = simulated_shop(impressions=protocol["name"] == "by_day", users=60)
    dataset = parameters(protocol, features_of(protocol))
    for connection in (duckdb, spark):
        made = on_engine(connection, tables, dataset, partitions=1 + seed % 4)
        assert_equal_to_numpy(made, tables, dataset)


def test_own_tables_with_string_ids_missing_values_and_unknown_users(connection, tmp_path):
    rng = np.random.default_rng(2)
    visits = "".join(f"u{rng.integers(9)},i{rng.integers(20)},{rng.integers(400_000)}\n" for _ in range(200))
    shown = "".join(
        f"u{rng.integers(12)},i{rng.integers(20)},{rng.integers(400_000)},{rng.integers(2)},{rng.choice(['top', 'side', ''])}\n"
        for _ in range(300)
    )
    for name, text in {
        "visits": f"user,item,time\n{visits}", "impressions": f"user,item,time,label,place\n{shown}",
        "items": "item,category\n" + "".join(f"i{k},{'ab'[k % 2]}\n" for k in range(20)),
    }.items():  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    tables = canonical(read(tmp_path, FeatureColumns(context=("place",))))
    dataset = parameters({"name": "by_day"}, {"context": ["place"]})
    assert_equal_to_numpy(on_engine(connection, tables, dataset, partitions=2), tables, dataset)


def test_names_with_quotes_and_spaces_are_columns_like_others(connection):
    """The names are those of columns by which targets are selected; names of features allow letters, digits and _ only."""
    names = ['what "happened"', "it's; DROP TABLE x--", "a`b c"]
    rows = [(user, item, time) for user in range(20) for time, item in enumerate(range(1 + user % 3, 8))]
    behaviors = pd.DataFrame(rows, columns=["user", "item", "time"])
    for name in names:
        behaviors[name] = ["x' OR 1=1", "y"] * (len(rows) // 2) + ["y"] * (len(rows) % 2)
    behaviors["Kind"] = np.arange(len(rows)) % 3
    items = pd.DataFrame({"item": range(1, 20), "category": "c"})
    tables = canonical(CanonicalTables(behaviors, items))
    dataset = parameters(
        {"name": "next_item", "targets": {name: ["x' OR 1=1", "y"] for name in names}},
        {"behavior": ["item_id", "Kind"]},
    )
    assert_equal_to_numpy(on_engine(connection, tables, dataset, partitions=2), tables, dataset)


def test_a_user_who_has_touched_everything_is_left_out_and_counted(duckdb):
    rows = [(user, item, item) for user in range(6) for item in range(1, 5 if user else 9)]
    tables = canonical(
        CanonicalTables(
            pd.DataFrame(rows, columns=["user", "item", "time"]),
            pd.DataFrame({"item": range(1, 9), "category": "c"}),
        )
    )
    dataset = parameters({"name": "next_item", "negative_pool": "catalogue"}, {})
    made = on_engine(duckdb, tables, dataset, partitions=3)
    assert_equal_to_numpy(made, tables, dataset)
    assert made.summary.set_index("reason")["rows"].filter(like="no negative possible").tolist() == [7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": {"name": "next_item", "targets": {"acton": ["view"]}}}, "acton is not a column of the behaviours"),
        ({"protocol": {"name": "next_item", "targets": {"action": ["open"]}}}, "no behaviour has action open"),
        ({"protocol": {"name": "next_item", "min_behaviors": 1000}}, "no train and no validation and no test samples"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_an_error_that_names_it(duckdb, change, message):
    dataset = parameters(change.get("protocol", {"name": "next_item"}), change.get("features", BEHAVIORS))
    with pytest.raises(InputError, match=message):
        on_engine(duckdb, simulated_shop(impressions=False), dataset, partitions=2)


def test_behaviours_of_items_without_a_row_are_an_error(duckdb):
    tables = simulated_shop(impressions=False)
    tables = CanonicalTables(tables.behaviors, tables.items.iloc[1:])
    with pytest.raises(InputError, match="behaviours refer to items without a row"):
        on_engine(duckdb, tables, parameters({"name": "next_item"}, BEHAVIORS), partitions=1)
