import numpy as np
from support.logs import encoded, tables_of

from deep_interest.logs.protocols import ProtocolParameters, catalogue_samples
from deep_interest.logs.summary import samples_summary
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.nodes import build_vocabularies, samples_from_behaviors


def test_the_summary_counts_what_is_there_and_what_is_left_out():
    rows = [("u", item, item) for item in (1, 2, 3, 4)] + [("v", 1, 1)]
    log = encoded(tables_of(rows, items=9))
    samples = catalogue_samples(log, ProtocolParameters(name="next_item", negative_pool="catalogue"))
    table = samples_summary(samples, log, {"broken line": 2}).set_index("split")
    assert list(table.index) == ["train", "validation", "test", "all", "left out", "left out"]
    assert list(table.loc[["train", "validation", "test", "all"], "rows"]) == [2, 2, 2, 6]
    assert list(table.loc[["train", "validation", "test", "all"], "positives"]) == [1, 1, 1, 3]
    assert tuple(table.loc["all", ["users", "items", "behaviors", "mean_history", "max_history"]]) == (
        2,
        4,
        5,
        2.0,
        3,
    )
    lost = dict(zip(table.loc["left out", "reason"], table.loc["left out", "rows"], strict=True))
    assert lost == {"broken line": 2, "behaviors of users with fewer than 3 behaviors": 1}
    assert np.isclose(table.loc["test", "mean_history"], 3.0)


def test_items_without_a_training_sample_are_unknown_in_catalogue_protocols():
    """v trains nothing (one behaviour). u: 1 → 2 trains, 3 validates, 4 tests; negatives are drawn from all nine items.

    So training holds item 1 in a history, item 2 and one drawn negative; 3 and 4 are in no training sample.
    """
    rows = [("u", item, item) for item in (1, 2, 3, 4)] + [("v", 1, 1)]
    tables = tables_of(rows, items=9)
    settings = DatasetParameters(
        title="t", features={"item": ["item_id"], "profile": ["user_id"]}, recipe="ours",
        protocol={"name": "next_item", "negative_pool": "catalogue"},
    )  # fmt: skip
    ids = build_vocabularies(tables.behaviors, tables.items)
    log, features, samples, summary = samples_from_behaviors(
        tables.behaviors, tables.items, *ids, {}, settings
    )
    trained = {1, 2, int(samples["item"][1])}
    assert set(np.flatnonzero(features.items["item_id"])) == trained
    assert list(features.users["user_id"]) == [0, 1, 0]
    np.testing.assert_array_equal(log.fields["item_id"] > 0, [item in trained for item in (1, 2, 3, 4, 1)])
    table = summary.set_index("split")
    for split in ("train", "validation", "test"):
        chosen = samples.loc[samples["split"] == split, "item"]
        share = round(1 - np.mean([item in trained for item in chosen]), 4)
        assert table.loc[split, "unknown_items"] == table.loc[split, "unknown_item_id"] == share
        assert table.loc[split, "unknown_users"] == table.loc[split, "unknown_user_id"] == 0
    assert table.loc["train", "unknown_items"] == 0 < table.loc["test", "unknown_items"]
