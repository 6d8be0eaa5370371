"""The scores of neighbours: no label of a user reaches the scores of her own training samples, and no held-out label reaches any."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.training import sample_set, small_data

from deep_interest.analysis.attribution import single_sample_batch
from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import auc
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.schema import Field
from deep_interest.logs.standardised import decode
from deep_interest.models.registry import build_model, model_config
from deep_interest.retraining.window import require_one_sequence
from deep_interest.training.evaluation import predict
from deep_interest.training.neighbours import FOLDS, folds_of, neighbour_scores, with_neighbours


def scores_of(data, samples=None, *, max_len=8):
    return neighbour_scores(
        data.log, data.features, data.samples if samples is None else samples, max_len=max_len
    )


def flipped(samples, rows):
    return samples.assign(label=np.where(rows, 1 - samples["label"], samples["label"]).astype(np.int8))


def test_no_label_of_a_user_reaches_her_own_training_samples():
    data = small_data(users=100)
    train, before = data.samples["split"] == "train", scores_of(data)
    for user in (1, 12, 51):
        own = (data.samples["user"] == user) & train
        after = scores_of(data, flipped(data.samples, own))
        np.testing.assert_array_equal(after[own], before[own])
        assert (after[train & ~own] != before[train & ~own]).any()


def test_no_label_of_validation_or_test_reaches_any_score():
    data = small_data(users=100)
    samples = flipped(data.samples, data.samples["split"] != "train")
    np.testing.assert_array_equal(scores_of(data, samples), scores_of(data))


def test_later_behaviours_reach_no_score():
    """A score sees the behaviours before ``history_end`` only: behaviours that no training sample sees can change."""
    data = small_data(users=100)
    user, end = data.samples["user"].to_numpy(), data.samples["history_end"].to_numpy()
    seen = np.zeros(len(data.log.offsets) - 1, int)
    np.maximum.at(seen, user, end)
    owner = np.repeat(np.arange(len(seen)), np.diff(data.log.offsets))
    later = np.arange(len(owner)) - data.log.offsets[:-1][owner] >= seen[owner]
    assert later.any()
    fields = {name: np.where(later, 1, codes).astype(np.int32) for name, codes in data.log.fields.items()}
    changed = replace(data, log=replace(data.log, fields=fields))
    np.testing.assert_array_equal(scores_of(changed), scores_of(data))


def test_held_out_samples_have_the_score_of_item_knn():
    data, test = small_data(users=100), sample_set(small_data(users=100), "test", max_len=8)
    model = build_model("item_knn", model_config("item_knn", {}), data.features.schema)
    model.fit(sample_set(data, "train", max_len=8))
    expected = predict(model, test, batch_size=64)
    found = scores_of(data)[data.samples["split"] == "test"]
    np.testing.assert_allclose(1 / (1 + np.exp(-found)), expected, rtol=1e-5)


def test_the_scores_of_the_training_samples_are_no_better_than_those_of_others():
    """Labels without any pattern: a neighbourhood that knew them would predict those of the training samples."""
    data = small_data(users=400)
    data.samples["label"] = np.random.default_rng(0).integers(0, 2, len(data.samples)).astype(np.int8)
    train = (data.samples["split"] == "train").to_numpy()
    assert auc(data.samples["label"].to_numpy()[train], scores_of(data)[train]) == pytest.approx(
        0.5, abs=0.04
    )


def test_the_feature_is_a_dense_context_field_standardised_by_the_training_samples():
    data = small_data(users=100)
    features, samples = with_neighbours(data.log, data.features, data.samples, max_len=8)
    assert features.schema.context == (Field(name="neighbours", size=2, dense=True),)
    train = (samples["split"] == "train").to_numpy()
    z, scores = decode(samples["neighbours"].to_numpy()), scores_of(data)
    assert z[train].mean() == pytest.approx(0, abs=1e-3)
    assert z[train].std() == pytest.approx(1, abs=1e-3)
    expected = (scores - scores[train].mean()) / scores[train].std()
    np.testing.assert_allclose(z, expected.clip(-8, 8), atol=2e-4)


def test_each_fold_has_users_on_whom_coefficients_are_fitted():
    users = np.arange(1000)
    assert set(zip(folds_of(users), users % 10 == 0, strict=True)) == {
        (fold, first) for fold in range(FOLDS) for first in (True, False)
    }


def test_all_training_users_in_one_fold_are_scored_alike():
    data = small_data(users=9)
    train = data.samples["split"] == "train"
    assert (scores_of(data)[train] == 0).all()


def test_retraining_scoring_and_explanations_refuse_the_feature():
    columns = FeatureColumns(item=("item_id",), neighbours=10)
    with pytest.raises(InputError, match=r"features\.neighbours: retraining and scoring do not compute"):
        require_one_sequence(columns)
    data = small_data(users=100)
    features, samples = with_neighbours(data.log, data.features, data.samples, max_len=8)
    found = sample_set(replace(data, features=features, samples=samples), "test")
    with pytest.raises(InputError, match=r"features\.neighbours\) cannot be explained"):
        single_sample_batch(found, 1, 0, 1)
    assert torch.is_tensor(found.context["neighbours"])


def test_a_column_cannot_have_its_name():
    with pytest.raises(ValueError, match="neighbours is computed, but a column has the same name"):
        FeatureColumns(context=("neighbours",), neighbours=10)
