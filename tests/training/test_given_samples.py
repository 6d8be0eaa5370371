"""Samples with given histories: what a model sees of the log, and how weights enter the training loss."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.given import GivenRow, given_data, given_tables, random_rows
from support.training import sample_set, small_data

from deep_interest.errors import InputError
from deep_interest.logs.samples import SPLITS
from deep_interest.models.registry import build_model, model_config
from deep_interest.ops.loss import log_loss
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import samples_with_each_id
from deep_interest.training.parameters import TrainingOptions


def seen_histories(data, split: str, *, max_len: int = 100) -> list[list[int]]:
    """Return the item codes in the history of each sample, as a batch has them; code k is item k here."""
    samples = sample_set(data, split, max_len=max_len)
    batch = samples.batch(torch.arange(len(samples)))
    slices = np.split(batch.history["item_id"].numpy(), batch.offsets.numpy()[1:-1])
    owner = range(len(samples)) if batch.owner is None else batch.owner.tolist()
    return [slices[index].tolist() for index in owner]


def in_order(rows: list[GivenRow], split: str) -> list[GivenRow]:
    """Return the rows of a split as the samples are sorted: by user, then in the order of the file."""
    return sorted((row for row in rows if row.split == split), key=lambda row: row.user)


@pytest.mark.parametrize("max_len", [3, 100])
@pytest.mark.parametrize("split", SPLITS)
def test_a_sample_sees_exactly_its_given_history(split, max_len):
    rows = random_rows()
    data, _ = given_data(given_tables(rows))
    known = {code for row in rows if row.split == "train" for code in (row.item, *row.history)}
    codes = {item: code for code, item in enumerate(sorted(known), start=1)}  # other items are unknown
    expected = [[codes.get(item, 0) for item in row.history][-max_len:] for row in in_order(rows, split)]
    assert seen_histories(data, split, max_len=max_len) == expected


def test_other_histories_of_the_user_change_nothing_for_a_sample():
    rows = random_rows()
    changed = [row if row.split == "train" else replace(row, history=(*row.history, 7, 7, 7)) for row in rows]
    one, other = (given_data(given_tables(each))[0] for each in (rows, changed))
    assert seen_histories(one, "train") == seen_histories(other, "train")
    assert one.features.schema == other.features.schema


def test_items_that_only_later_histories_contain_are_unknown():
    """The test row's history begins like that of the training row, whose segment it may share."""
    rows = [GivenRow(1, 1, 1, "train", (2, 3)), GivenRow(1, 2, 0, "test", (2, 3, 4))]
    tables = given_tables(rows)
    shared = replace(
        tables, behaviors=tables.behaviors[tables.behaviors["segment"] == 2].assign(segment=1),
        impressions=tables.shown.assign(segment=1),
    )  # fmt: skip
    data, _ = given_data(shared)
    assert data.features.items["item_id"].tolist()[:6] == [0, 1, 2, 3, 0, 0]
    assert seen_histories(data, "train") == [[2, 3]]
    assert seen_histories(data, "test") == [[2, 3, 0]]


@pytest.mark.parametrize("max_len", [2, 100])
def test_a_sample_counts_once_for_every_id_of_its_given_history(max_len):
    data, _ = given_data(given_tables(random_rows()))
    samples = sample_set(data, max_len=max_len)
    counts = np.zeros(data.features.schema.tables["item_id"], np.int64)
    for row, history in enumerate(seen_histories(data, "train", max_len=max_len)):
        for code in {*history, int(samples.store.items["item_id"][samples.item[row]])}:
            counts[code] += 1
    counted = samples_with_each_id(samples, "item_id", ("item", "behavior"), len(counts))
    np.testing.assert_array_equal(counted, counts)


def test_samples_of_different_users_without_history_are_different_requests():
    rows = [GivenRow(user, 1, user % 2, "train", ()) for user in (1, 1, 2)]
    rows += [GivenRow(2, 1, 1, "train", (3,)), GivenRow(1, 1, 1, "test", ())]
    data, _ = given_data(given_tables(rows))
    first, second, third, fourth = sample_set(data).requests.tolist()
    assert first == second
    assert len({first, third, fourth}) == 3


def test_a_segment_outside_the_log_is_an_error():
    data, _ = given_data(given_tables(random_rows()))
    with pytest.raises(InputError, match="segment"):
        sample_set(replace(data, samples=data.samples.assign(segment=np.int32(999))))


def fit_on(data, folder, **options) -> Fit:
    torch.manual_seed(0)
    train = sample_set(data)
    common = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}
    model = build_model("din", model_config("din", {}, common=common), train.store.schema)
    settings = {"batch_size": 1000, "epochs": 1, "patience": 1, "learning_rate": 0.01} | options
    return Fit(
        label="test", model=model, train=train, validation=sample_set(data, "validation"), options=TrainingOptions(**settings), seed=0,
        state_file=folder / "state.pt", fingerprint="weights",
    )  # fmt: skip


def test_a_weight_counts_like_repetitions_of_the_sample(tmp_path):
    """Weights 1, 2 and 3 have a mean of 2, so the loss is half the sum of the weighted losses over the rows."""
    data = small_data()
    weights = 1 + np.arange(len(data.samples)) % 3
    weighted = replace(data, samples=data.samples.assign(weight=weights.astype(np.float32)))
    repeated = replace(
        data, samples=data.samples.loc[data.samples.index.repeat(weights)].reset_index(drop=True)
    )
    losses, gradients = [], []
    for number, each in enumerate((weighted, repeated)):
        (tmp_path / str(number)).mkdir()
        fit = fit_on(each, tmp_path / str(number))
        batch = fit.train.batch(torch.arange(len(fit.train)))
        loss, gradient = log_loss(fit.model(batch).logits, batch.labels, fit.train.weights)
        losses.append(loss.item())
        gradients.append(gradient.sum().item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert gradients[0] == pytest.approx(gradients[1], rel=1e-4)


@pytest.mark.slow
def test_a_sample_of_weight_0_does_not_train(tmp_path):
    data = small_data()
    label = data.samples["label"].to_numpy()
    hidden = np.arange(len(label)) % 2 == 1
    weight = np.where(hidden, 0.0, 1.0).astype(np.float32)
    flipped = np.where(hidden, 1 - label, label).astype(np.int8)
    fits = []
    for number, labels in enumerate((label, flipped)):
        (tmp_path / str(number)).mkdir()
        fit = fit_on(
            replace(data, samples=data.samples.assign(weight=weight, label=labels)), tmp_path / str(number)
        )
        fit.train_step(torch.arange(len(fit.train)))
        fits.append(torch.cat([parameter.flatten() for parameter in fit.model.parameters()]))
    torch.testing.assert_close(*fits, rtol=0, atol=0)


def test_weights_have_a_mean_of_1_and_do_not_depend_on_their_unit():
    data = small_data()
    weight = np.random.default_rng(0).exponential(size=len(data.samples)).astype(np.float32)
    one, other = (
        sample_set(replace(data, samples=data.samples.assign(weight=weight * unit))).weights
        for unit in (1, 1000)
    )
    assert one.mean().item() == pytest.approx(1)
    torch.testing.assert_close(one, other)


def test_weights_that_are_all_0_are_an_error():
    data = small_data()
    with pytest.raises(InputError, match="weight: every sample has a weight of 0"):
        sample_set(replace(data, samples=data.samples.assign(weight=np.float32(0))))
