"""Sizes that are calculated by hand, and compared with the files of real data."""

import pytest
from support.planning import COLUMNS, COUNTS, own_tables

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.storage import save_features, save_log
from deep_interest.models.registry import build_model, model_config
from deep_interest.pipelines.samples import nodes
from deep_interest.planning.arrays import (
    behavior_width,
    features_bytes,
    log_bytes,
    model_size,
    sample_bytes,
    schema_of,
)
from deep_interest.planning.counts import Counts


def test_the_schema_has_the_rows_of_each_table():
    schema = schema_of(COLUMNS, COUNTS)
    assert schema.tables == {"item_id": 51, "category": 8, "gap": 44}  # with code 0
    assert [field.name for field in schema.behavior] == ["item_id", "category", "gap"]


def test_the_arrays_of_the_log_by_hand():
    # 10 users: offsets of 11 codes and the end; 200 behaviours: 2 fields of 4 bytes, times of 8; four files with headers of 128.
    assert log_bytes(schema_of(COLUMNS, COUNTS), COUNTS) == 12 * 8 + 200 * (4 + 4 + 8) + 4 * 128
    without_gap = FeatureColumns(item=("item_id", "category"))
    assert log_bytes(schema_of(without_gap, COUNTS), COUNTS) == 12 * 8 + 200 * (4 + 4) + 3 * 128


def test_the_arrays_of_features_by_hand():
    columns = FeatureColumns(item=("item_id", "category"), profile=("age",), context=("hour",))
    schema = schema_of(columns, COUNTS)
    assert features_bytes(schema, COUNTS) == 2 * 51 * 4 + 11 * 4 + 3 * 128
    assert sample_bytes(schema) == 4 + 4 + 4 + 1 + 1 + 8 + 4


def test_the_sizes_are_those_of_the_files_of_a_real_log(tmp_path):
    tables, dataset = own_tables()
    ids = nodes.build_vocabularies(tables.behaviors, tables.items)
    log, features, samples, _ = nodes.samples_from_behaviors(
        tables.behaviors, tables.items, *ids, {}, dataset
    )
    save_log(log, tmp_path / "log")
    save_features(features, tmp_path / "features")
    counts = Counts(
        users=tables.behaviors["user"].nunique(), items=len(tables.items), behaviors=len(tables.behaviors),
        samples=len(samples), values={"category": 7},
    )  # fmt: skip
    schema = schema_of(dataset.features, counts)
    on_disk = {
        name: sum(f.stat().st_size for f in (tmp_path / name).glob("*.npy")) for name in ("log", "features")
    }
    assert log_bytes(schema, counts) == on_disk["log"]
    assert features_bytes(schema, counts) == on_disk["features"]
    split = samples.memory_usage(index=False, deep=True)
    assert sample_bytes(schema) * len(samples) == pytest.approx(split.sum(), abs=400)  # names of the splits


@pytest.mark.parametrize("model", ["lr", "base", "wide_deep", "din", "dien", "bst"])
def test_the_parameters_are_those_of_the_model(model):
    schema = schema_of(FeatureColumns(item=("item_id", "category")), COUNTS)
    config = model_config(model, {}, common={"embedding_dim": 6, "hidden": (5, 4)})
    size, real = model_size(model, config, schema), build_model(model, config, schema)
    assert size.table_values + size.network_values == sum(p.numel() for p in real.parameters())


def test_the_tables_of_a_billion_ids_take_no_memory_to_count():
    counts = Counts(users=1, items=1_000_000_000, behaviors=1, samples=1, values={"category": 99})
    schema = schema_of(FeatureColumns(item=("item_id", "category")), counts)
    config = model_config("din", {}, common={"embedding_dim": 64})
    size = model_size("din", config, schema)
    assert size.table_values == (1_000_000_001 + 100) * 64
    assert size.table_bytes == 4 * size.table_values
    assert size.table_rows == 1_000_000_001 + 100


def test_the_width_of_a_behavior_counts_shared_and_own_fields():
    schema = schema_of(COLUMNS, COUNTS)
    config = model_config("din", {"own_dim": 8}, common={"embedding_dim": 16})
    assert behavior_width(schema, config) == 2 * 16 + 8


def test_uncounted_features_have_the_assumed_number_of_values():
    counts = Counts(users=1, items=1, behaviors=1, samples=1)
    columns = FeatureColumns(
        item=("item_id", "shop"), context=("hour", "price"), buckets={"price": [1.0, 2.0]}
    )
    assert schema_of(columns, counts).tables == {"item_id": 2, "shop": 1001, "hour": 25, "price": 4}
