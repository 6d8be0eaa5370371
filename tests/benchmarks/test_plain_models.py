"""The models in plain PyTorch do the same work as ours, so that comparing their speeds is fair."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import LIKE_FOR_LIKE
from padded import padded
from plain_batches import PlainSamples
from plain_dien import PlainDIEN
from plain_din import PlainDIN, optimizers, train
from support.training import CATEGORIES, ITEMS, small_data
from train import make_fit

from deep_interest.training.data import FeatureStore, SampleSet

DIM = 8
STEPS = 3
TABLES = {
    "item.weight": "embeddings.tables.item_id.weight",
    "category.weight": "embeddings.tables.category.weight",
}
MLP = {
    "mlp.0.weight": "mlp.layers.0.weight", "mlp.0.bias": "mlp.layers.0.bias", "mlp.1.weight": "mlp.layers.1.weight",
    "mlp.2.weight": "mlp.layers.2.weight", "mlp.2.bias": "mlp.layers.2.bias", "mlp.3.weight": "mlp.layers.3.weight",
    "mlp.4.weight": "mlp.layers.4.weight", "mlp.4.bias": "mlp.layers.4.bias",
}  # fmt: skip


def attention_names(prefix):
    return {
        "first.weight": f"{prefix}.first.weight", "first.bias": f"{prefix}.first.bias",
        "rest.1.weight": f"{prefix}.rest.layers.0.weight", "rest.1.bias": f"{prefix}.rest.layers.0.bias",
        "rest.3.weight": f"{prefix}.rest.layers.2.weight", "rest.3.bias": f"{prefix}.rest.layers.2.bias",
    }  # fmt: skip


DIN_NAMES = TABLES | MLP | attention_names("attention")
DIEN_NAMES = TABLES | MLP | attention_names("attention.unit") | {
    "query.0.weight": "attention.query.layers.0.weight", "query.0.bias": "attention.query.layers.0.bias",
    "query.1.weight": "attention.activation.weight",
    "extractor.inputs.weight": "extractor.input_weight", "extractor.states.weight": "extractor.state_weight",
    "extractor.inputs.bias": "extractor.bias",
    "augru.inputs.weight": "evolution_gru.input_weight", "augru.inputs.bias": "evolution_gru.bias",
    "augru.states.weight": "evolution_gru.state_weight",
    "aux_first.weight": "auxiliary.net.layers.0.weight", "aux_first.bias": "auxiliary.net.layers.0.bias",
    "aux_rest.1.weight": "auxiliary.net.layers.2.weight", "aux_rest.1.bias": "auxiliary.net.layers.2.bias",
    "aux_rest.3.weight": "auxiliary.net.layers.4.weight", "aux_rest.3.bias": "auxiliary.net.layers.4.bias",
}  # fmt: skip


@pytest.fixture
def samples():
    """Samples with histories of 1 to 9 behaviours, each user's history once, longest first."""
    data = small_data()
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    every = SampleSet.build(store, data.samples, "train", max_len=9)
    history = every.user.long() * 1000 + every.history_end
    _, first = np.unique(history.numpy(), return_index=True)
    rows = torch.from_numpy(first)
    rows = rows[every.history_end[rows] > 0]
    rows = rows[every.history_end[rows].clamp(max=9).argsort(descending=True, stable=True)]
    columns = {name: getattr(every, name)[rows] for name in ("user", "item", "history_end", "labels")}
    return replace(every, **columns)


@pytest.fixture
def plain(samples):
    store = samples.store
    arrays = padded(
        item=samples.item.numpy(), user=samples.user.numpy(), label=samples.labels.numpy(),
        end=samples.history_end.numpy().astype(np.int64), offsets=store.offsets.numpy(), item_ids=store.history["item_id"].numpy(),
        category=store.items["category"].numpy(), max_len=samples.max_len, rng=np.random.default_rng(0),
    )  # fmt: skip
    return PlainSamples.from_padded(arrays, ITEMS + 1)


def fit_of(samples, model):
    common = {"embedding_dim": DIM, "embedding_std": 0.5, "attention_hidden": (80, 40), "hidden": (200, 80)}
    fit = make_fit(samples, model=model, batch_size=16, common=common, options=LIKE_FOR_LIKE[model])
    with torch.no_grad():
        for name, parameter in fit.model.named_parameters():
            if not name.startswith("embeddings"):
                parameter.mul_(4)  # so that attention is far from uniform and decides about the loss
    return fit


def copy_parameters(source, target, names):
    """Give the plain model our parameters; its activation unit sees the difference before the product."""
    ours, theirs = source.state_dict(), target.state_dict()
    assert set(theirs) == set(names)
    for name, value in theirs.items():
        found = ours[names[name]]
        if name == "first.weight":
            e, v, product, difference = found.chunk(4, 1)
            found = torch.cat([e, v, difference, product], 1)
        value.copy_(found)


def batches_of(samples):
    return torch.arange(len(samples)).split(16)[:STEPS]


@pytest.mark.slow
@pytest.mark.nightly
def test_plain_din_has_our_loss_at_every_step_of_training(samples, plain):
    fit = fit_of(samples, "din")
    model = PlainDIN(ITEMS + 1, CATEGORIES + 1, DIM)
    copy_parameters(fit.model, model, DIN_NAMES)
    steppers = optimizers(model)
    for rows in batches_of(samples):
        batch = plain.batch(rows)
        loss = model.loss(batch).item()
        train(model, steppers, [batch])
        assert fit.train_step(rows)[0].item() == pytest.approx(loss, rel=1e-5)


@pytest.mark.slow
@pytest.mark.nightly
def test_plain_dien_has_our_loss_at_every_step_of_training(samples, plain, monkeypatch):
    fit = fit_of(samples, "dien")
    model = PlainDIEN(ITEMS + 1, CATEGORIES + 1, DIM)
    copy_parameters(fit.model, model, DIEN_NAMES)
    steppers = optimizers(model)
    for rows in batches_of(samples):
        batch = plain.packed_batch(rows)
        monkeypatch.setattr(
            FeatureStore, "sample_negatives", lambda _, history, shown, batch=batch: sample_by_sample(batch)
        )
        loss = model.loss(batch).item()
        train(model, steppers, [batch])
        target, auxiliary = fit.train_step(rows)
        assert (target + auxiliary).item() == pytest.approx(loss, rel=1e-5)


def sample_by_sample(batch):
    """The sampled items of a packed batch, sample after sample, as ours orders them."""
    order = batch.owner.argsort(stable=True)
    return {"item_id": batch.negative_item[order].int(), "category": batch.negative_category[order].int()}


@pytest.mark.parametrize(("key", "kind"), [("din", PlainDIN), ("dien", PlainDIEN)])
def test_plain_models_have_as_many_parameters_as_ours(samples, key, kind):
    ours = sum(parameter.numel() for parameter in fit_of(samples, key).model.parameters())
    plain = kind(ITEMS + 1, CATEGORIES + 1, DIM)
    assert sum(parameter.numel() for parameter in plain.parameters()) == ours


def test_packed_batches_hold_the_same_behaviours_in_step_order(plain):
    rows = torch.tensor([0, 5, 9, 20])
    batch, packed = plain.batch(rows), plain.packed_batch(rows)
    assert packed.batch_sizes.sum() == len(batch.owner)
    assert packed.owner[: len(rows)].tolist() == [0, 1, 2, 3]
    order = packed.owner.argsort(stable=True)
    assert packed.history_item[order].tolist() == batch.history_item.tolist()
    assert packed.history_category[order].tolist() == batch.history_category.tolist()
    assert not (packed.negative_item == packed.history_item).any()
