"""Regularisers' counts, the filter's rows in n_j, untrained rows and codes' bounds, at exact values."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.batches import SCHEMA, random_batch
from support.training import sample_set, small_data, with_tags

from deep_interest.errors import InputError
from deep_interest.logs.schema import Field
from deep_interest.models.embeddings import Table
from deep_interest.models.registry import build_model, model_config
from deep_interest.training import occurrences
from deep_interest.training.code_checks import check_log, check_samples
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import Regularizer, occurrence_key, regularizers
from deep_interest.training.unknown import UnknownRows, negative_fields, sum_of_rows


def table_of(*groups, name="item_id", size=13):
    return Table(Field(name=name, size=size), 2, groups=groups, std=1.0)


def test_a_regularizer_is_on_if_one_of_its_penalties_is():
    counted, crossed = table_of("item"), table_of()
    n = torch.ones(13, dtype=torch.int64)
    for penalty in ("l2", "mba", "difacto"):
        assert Regularizer(counted, TrainingOptions(**{penalty: 0.1}), n).on
        assert Regularizer(crossed, TrainingOptions(**{penalty: 0.1}), None).on == (penalty == "l2")
    assert not Regularizer(counted, TrainingOptions(), n).on


def test_an_id_that_no_training_sample_has_is_penalized_as_if_one_had():
    found = Regularizer(table_of("item", size=5), TrainingOptions(mba=3.0), torch.tensor([0, 1, 2, 0, 4]))
    assert found.inverse.tolist() == [3.0, 3.0, 1.5, 3.0, 0.75]
    assert found.inverse.dtype == torch.float32


def test_the_counter_is_clean_after_each_batch():
    batch = random_batch([3, 0, 1, 7, 2])
    regularizer = Regularizer(table_of("item", "behavior"), TrainingOptions(difacto=1.0), None)
    rows, held = torch.arange(13), [*batch.candidate["item_id"].tolist(), *batch.history["item_id"].tolist()]
    for _ in range(2):
        assert regularizer(rows, batch).tolist() == np.bincount(held, minlength=13).tolist()
    assert not regularizer._counts.any()


def test_rows_of_the_filter_are_counted_where_they_are_looked_up():
    batch = random_batch([3, 0, 1, 7, 2])
    model = build_model("base", model_config("base", {"keep_top": 2}), SCHEMA)
    table = model.embeddings.tables["item_id"]
    table.keep_most_frequent(torch.arange(13))
    held = [*batch.candidate["item_id"].tolist(), *batch.history["item_id"].tolist()]
    expected = np.bincount([code if code > 10 else 0 for code in held], minlength=13)
    assert (
        Regularizer(table, TrainingOptions(difacto=1.0), None)(torch.arange(13), batch).tolist()
        == expected.tolist()
    )


def test_every_table_gets_the_counts_of_its_field_and_groups():
    tables = [table_of("item", "behavior"), table_of("profile", name="gender"), table_of(name="category")]
    assert [occurrence_key(table) for table in tables] == [
        "item_id:item+behavior",
        "gender:profile",
        "category:",
    ]
    counts = {"item_id:item+behavior": torch.full((13,), 2), "gender:profile": torch.full((13,), 4)}
    first, second, crossed = regularizers(tables, TrainingOptions(mba=1.0), counts)
    assert (first.inverse[0], second.inverse[0], crossed.inverse) == (0.5, 0.25, None)
    assert [one.table for one in (first, second, crossed)] == tables
    assert not any(one.on for one in regularizers(tables, TrainingOptions(), None))


@pytest.mark.parametrize("at_once", [1, 40, 1 << 20])
def test_blocks_are_whole_users_of_bounded_length(monkeypatch, at_once):
    monkeypatch.setattr(occurrences, "BLOCK_SIZE", at_once)
    offsets = np.array([0, 0, 30, 40, 41, 141, 150])
    expected = {
        1: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)],
        40: [(0, 3), (3, 4), (4, 5), (5, 6)],
        1 << 20: [(0, 6)],
    }
    assert list(occurrences._blocks(offsets)) == expected[at_once]


def test_n_j_of_a_filtered_table_counts_the_rows_that_are_looked_up():
    train = sample_set(small_data())
    model = build_model("base", model_config("base", {"keep_top": 5}), train.store.schema)
    table = model.embeddings.tables["item_id"]
    table.keep_most_frequent(torch.arange(41))
    (counts,) = occurrences_of([table], train).values()
    expected = np.zeros(41, np.int64)
    for row in range(len(train)):
        start, end = int(train.store.offsets[train.user[row]]), int(train.history_end[row])
        held = [int(train.item[row]), *train.store.history["item_id"][start : start + end].tolist()]
        for code in {code if code > 35 else 0 for code in held}:
            expected[code] += 1
    np.testing.assert_array_equal(counts, expected)
    assert counts.dtype == torch.int64
    assert occurrences_of([table_of()], train) == {}


def test_the_rows_are_summed_in_double_precision_over_the_chosen_rows():
    """Summed in float32, 1 would vanish next to 2^25."""
    values = torch.tensor([[2.0**25], [1.0], [-(2.0**25)], [7.0]])
    found = sum_of_rows(values, torch.tensor([True, True, True, False]))
    assert found.tolist() == [1.0]
    assert found.dtype == torch.float64


def test_which_negatives_a_model_draws():
    assert negative_fields(build_model("dien", model_config("dien", {"aux_weight": 1.0}), SCHEMA)) == [
        "item_id",
        "category",
    ]
    assert negative_fields(build_model("dien", model_config("dien", {}), SCHEMA)) == []
    assert negative_fields(build_model("base", model_config("base", {}), SCHEMA)) == []


def test_the_untrained_rows_of_a_whole_model_respect_drawn_fields_and_an_earlier_model():
    model = build_model("dien", model_config("dien", {"aux_weight": 1.0}), SCHEMA)
    counts = {
        occurrence_key(table): torch.arange(table.num_embeddings) % 2
        for table in model.embeddings.tables.values()
    }
    before = {name: table.weight.detach().clone() for name, table in model.embeddings.tables.items()}
    UnknownRows.of(model, counts, trained_before={"hour:context": 3}).fill()
    changed = {
        name: (table.weight != before[name]).any(1).nonzero().squeeze(1).tolist()
        for name, table in model.embeddings.tables.items()
    }
    assert changed == {"item_id": [0], "category": [0], "gender": [0, 2], "hour": [0]}
    UnknownRows.of(model, counts).fill()
    assert (model.embeddings.tables["hour"].weight[2] != before["hour"][2]).any()


@pytest.mark.parametrize(
    ("columns", "sizes", "message"),
    [
        ({"hour": [0, 4, 5]}, {}, r"context field hour: code 5 at position 2 .* table of 5 rows"),
        ({"tags": [0, 2, 3]}, {}, r"context field tags: code 3 at position 2 .* table of 3 rows"),
        ({"user": [1, 1, 3]}, {}, r"samples\.user: code 3 .* table of 3 rows"),
        ({"user": [1, 1, 2]}, {"users": 2}, r"samples\.user: code 2 .* table of 2 rows"),
        ({"item": [0, 1, 7]}, {}, r"samples\.item: code 7 .* table of 7 rows"),
        (
            {"history_end": [4, 5, 1]},
            {},
            r"samples\.history_end: sample 1 has 5 behaviours before it, but user 1 has 4 in ",
        ),
        (
            {"history_end": [4, 4, 3], "user": [1, 1, 2]},
            {},
            r"sample 2 has 3 behaviours before it, but user 2 has 2 in the log",
        ),
    ],
)
def test_a_column_of_samples_out_of_range_is_named(columns, sizes, message):
    """Users 0, 1 and 2 have 0, 4 and 2 behaviours."""
    schema = SCHEMA.model_copy(
        update={"context": (Field(name="hour", size=5), Field(name="tags", size=9, pooling="sum"))}
    )
    fine = {
        "user": [1, 1, 2],
        "item": [0, 6, 1],
        "history_end": [4, 0, 2],
        "hour": [0, 4, 1],
        "tags": [0, 2, 1],
    }
    arguments = {"offsets": np.array([0, 0, 4, 6]), "items": 7, "users": 9, "value_sets": {"tags": 3}}
    check_samples(schema, {name: np.array(column, np.int32) for name, column in fine.items()}, **arguments)
    with pytest.raises(InputError, match=message):
        wrong = {name: np.array(column, np.int32) for name, column in (fine | columns).items()}
        check_samples(schema, wrong, **(arguments | sizes))


def test_user_codes_and_every_field_of_the_log_are_checked():
    data = with_tags(small_data())
    check_log(data.log, data.features)
    schema = data.features.schema.model_copy(update={"profile": (Field(name="gender", size=2),)})
    features = replace(data.features, schema=schema, users={"gender": np.array([0, 1, 2], np.int32)})
    with pytest.raises(InputError, match=r"profile field gender: code 2 at position 2 .* table of 2 rows"):
        check_log(data.log, features)
    value_sets = data.features.value_sets["tags"]
    short = replace(value_sets, offsets=value_sets.offsets - 1)
    with pytest.raises(InputError, match=r"^tags, value sets: "):
        check_log(data.log, replace(data.features, value_sets={"tags": short}))
    last = data.log.offsets.copy()
    last[-1] += 1
    with pytest.raises(InputError, match=r"^offsets of the log, field (item_id|category|tags): "):
        check_log(_with_offsets(data.log, last), data.features)


def _with_offsets(log, offsets):
    changed = replace(log)
    object.__setattr__(changed, "offsets", offsets)
    return changed
