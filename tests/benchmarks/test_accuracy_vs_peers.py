"""The samples that other libraries take."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from accuracy_vs_peers import arrays_of, our_scores, predictions_file, samples_file, tuned_rows


def test_candidates_and_behaviours_have_the_same_item_codes():
    """Item 2 has no training sample: samples number it, the feature does not."""
    features = SimpleNamespace(
        items={"item_id": np.array([0, 1, 0, 2, 3]), "category": np.array([0, 1, 1, 2, 2])}
    )
    behaviors = np.array([1, 3, 4, 2, 4])  # of users 1 and 2, in the numbers of samples
    log = SimpleNamespace(
        offsets=np.array([0, 0, 3, 5]), fields={"item_id": features.items["item_id"][behaviors]}
    )
    rows = pd.DataFrame({"user": [1, 1, 2], "item": [4, 2, 4], "label": [1, 0, 1], "history_end": [2, 2, 1]})
    found = arrays_of(rows, log, features, max_len=3, rng=np.random.default_rng(0))
    assert found["item"].tolist() == [3, 0, 3]
    assert found["category"].tolist() == [2, 1, 2]
    assert found["history_item"].tolist() == [[1, 2, 0], [1, 2, 0], [0, 0, 0]]
    assert found["history_category"].tolist() == [[1, 2, 0], [1, 2, 0], [0, 0, 0]]
    assert found["length"].tolist() == [2, 2, 1]


def test_our_predictions_are_those_of_the_test_samples(tmp_path):
    """Both have the items' numbers of samples, which are not the codes that libraries have."""
    for path in (
        samples := samples_file("shop", data=tmp_path),
        predictions_file("shop", "din", data=tmp_path),
    ):
        path.parent.mkdir(parents=True)
    rows = pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 2], "split": ["train", "test", "test"]})
    rows.to_parquet(samples)
    predictions = rows.drop(columns="split").iloc[1:].assign(seed_1=[0.2, 0.6], seed_2=[0.3, 0.5])
    predictions.to_parquet(path)
    assert our_scores("shop", "din", data=tmp_path).tolist() == [[0.2, 0.6], [0.3, 0.5]]
    predictions.iloc[::-1].to_parquet(path)
    with pytest.raises(SystemExit, match="predicts other samples"):
        our_scores("shop", "din", data=tmp_path)


def test_the_rows_of_a_leaderboard_are_compared_and_without_any_it_is_an_error(tmp_path):
    with pytest.raises(SystemExit, match=r"no tuned din_items or din or .*leaderboard\.shop"):
        tuned_rows("shop", "din", data=tmp_path)
    predictions = predictions_file("shop", "din_mba_leaderboard", data=tmp_path)
    predictions.parent.mkdir(parents=True)
    predictions.touch()
    assert tuned_rows("shop", "din", data=tmp_path) == {"din_mba": "din_mba_leaderboard"}
