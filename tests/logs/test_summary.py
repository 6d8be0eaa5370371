import numpy as np
from support.logs import encoded, tables_of

from deep_interest.logs.protocols import ProtocolParameters, catalogue_samples
from deep_interest.logs.summary import samples_summary


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
