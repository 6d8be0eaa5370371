"""Batch scoring against the scores of evaluation and a plain sort."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from kedro.io import DatasetError
from support.training import ITEMS, small_data, with_prices

from deep_interest.datasets import ScoresFile
from deep_interest.io.checksums import sidecar
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.pairs import Scores, ScoringRequest, score_pairs
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict

COMMON = {"embedding_dim": 4, "embedding_std": 1.0}


def make(key="din", *, dense=False):
    data = small_data(users=17)
    data = with_prices(data) if dense else data
    torch.manual_seed(0)
    model = build_model(key, model_config(key, {}, common=COMMON), data.features.schema).eval()
    return model, data, FeatureStore.build(data.log, data.features, torch.device("cpu"))


def request(users=18, items=ITEMS):
    """Every user, the unknown one first, with every item."""
    rng = np.random.default_rng(0)
    return ScoringRequest(
        users=pd.Series([f"u{k}" for k in range(users)]), user_codes=np.arange(users, dtype=np.int32), context={},
        items=pd.Series(np.arange(items) + 1000), item_codes=np.arange(1, items + 1, dtype=np.int32),
        bids=rng.uniform(0.1, 2, items),
    )  # fmt: skip


def evaluated(model, data, store):
    """Scores of evaluation for all pairs, ``(users, items)``; the samples are in random order."""
    order = np.random.default_rng(1).permutation(18 * ITEMS)
    user, item = order // ITEMS, order % ITEMS + 1
    samples = pd.DataFrame(
        {
            "user": user.astype(np.int32), "item": item.astype(np.int32), "label": 0, "split": "test",
            "history_end": np.diff(data.log.offsets)[user].astype(np.int32),
        }
    )  # fmt: skip
    scores = predict(model, SampleSet.build(store, samples, "test", max_len=100), batch_size=50)
    table = np.empty(18 * ITEMS, np.float32)
    table[order] = scores
    return table.reshape(18, ITEMS)


@pytest.mark.parametrize("dense", [False, True], ids=["codes", "numbers"])
@pytest.mark.parametrize("key", ["din", "dien", "base", "bst"])
@pytest.mark.parametrize("pairs_at_once", [7, 100, 10_000])
def test_scores_equal_those_of_evaluation_for_any_group_size(key, pairs_at_once, dense):
    model, data, store = make(key, dense=dense)
    blocks = score_pairs(model, store, request(), version="v", max_len=100, pairs_at_once=pairs_at_once)
    table = pd.concat(blocks)
    found = table.pivot(index="user", columns="item", values="ctr").loc[request().users].to_numpy()
    np.testing.assert_allclose(found, evaluated(model, data, store), atol=1e-6)


def test_top_k_candidates_by_ecpm_are_kept():
    model, data, store = make()
    scoring = request()
    table = pd.concat(
        score_pairs(model, store, scoring, version="v", max_len=100, gamma=1.5, top_k=3, pairs_at_once=90)
    )
    ecpm = evaluated(model, data, store).astype(np.float64) ** 1.5 * scoring.bids
    for number, (user, rows) in enumerate(table.groupby("user", sort=False)):
        best = sorted(range(ITEMS), key=lambda k: -ecpm[number, k])[:3]
        assert user == scoring.users[number]
        assert list(rows["item"]) == [1000 + k for k in best]
        assert list(rows["rank"]) == [1, 2, 3]
        np.testing.assert_allclose(rows["ecpm"], ecpm[number, best], rtol=1e-5)


def test_candidates_with_equal_ecpm_keep_their_order():
    model, _, store = make()
    same = request(users=2, items=5)
    same.item_codes[:] = 1
    same.bids[:] = 1.0
    table = pd.concat(score_pairs(model, store, same, version="v", max_len=100, top_k=2))
    assert list(table["item"]) == [1000, 1001, 1000, 1001]


def test_file_has_the_version_and_a_failed_stream_leaves_no_file(tmp_path):
    model, _, store = make()
    file = tmp_path / "scores.parquet"
    stream = score_pairs(model, store, request(), version="2024-x", max_len=100, top_k=2, pairs_at_once=80)
    ScoresFile(filepath=str(file)).save(Scores("2024-x", stream))
    assert pq.read_schema(file).metadata[b"model_version"] == b"2024-x"
    assert len(pd.read_parquet(file)) == 18 * 2
    assert pq.ParquetFile(file).num_row_groups == 9
    file.unlink()
    sidecar(file).unlink()

    def broken():
        yield from score_pairs(model, store, request(), version="v", max_len=100, pairs_at_once=80)
        raise KeyError

    with pytest.raises(DatasetError):
        ScoresFile(filepath=str(file)).save(Scores("v", broken()))
    assert not list(tmp_path.iterdir())
