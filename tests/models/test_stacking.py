"""The option `stack_neighbours`: a share of the neighbourhood's score in predictions, chosen on validation data."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.batches import SCHEMA, random_batch
from support.one_user import random_request
from support.training import sample_set, small_data

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import gauc
from deep_interest.export.logits import logits
from deep_interest.export.request import Request
from deep_interest.logs.schema import Field
from deep_interest.logs.standardised import decode
from deep_interest.models.config import DeepConfig
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.models.stacking import Mixture
from deep_interest.training.evaluation import predict
from deep_interest.training.loop import Fit
from deep_interest.training.neighbours import with_neighbours
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.stacking import stack

SMALL = {"embedding_dim": 4, "hidden": (5, 4), "attention_hidden": (6, 3), "width": 4}
SCORED = SCHEMA.model_copy(
    update={"context": (*SCHEMA.context, Field(name="neighbours", size=2, dense=True))}
)
WITH_OPTION = [
    key
    for key in {row.path: key for key, row in reversed(MODELS.items())}.values()
    if (issubclass(MODELS[key].load().Config, DeepConfig) or key == "nade") and key != "user_only"
]


def build(key, options, schema=SCORED):
    torch.manual_seed(0)
    return build_model(key, model_config(key, options, common=SMALL), schema).double().eval()


def z_of(batch):
    codes = batch.context["neighbours"].double()
    return torch.where(codes == 0, 0, (codes - 1) / 4096 - 8)


@pytest.mark.parametrize("key", WITH_OPTION)
def test_predictions_mix_the_score_into_the_whole_logit_and_training_does_not(key):
    batch = random_batch([3, 0, 1, 7, 2], schema=SCORED)
    plain, stacked = build(key, {}), build(key, {"stack_neighbours": True})
    missing, unexpected = stacked.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["stacking.mixture"], [])
    alone = plain(batch).logits
    assert torch.equal(stacked(batch).logits, alone)  # no share yet
    stacked.stacking.set(Mixture(share=0.25, scale=2.0, offset=-0.5))
    torch.testing.assert_close(stacked(batch).logits, 0.75 * alone + 0.25 * (2 * z_of(batch) - 0.5))
    assert torch.equal(logits_in_training(stacked, batch), logits_in_training(plain, batch))


def logits_in_training(model, batch):
    torch.manual_seed(7)  # some models draw in training
    return model.train()(batch).logits


@pytest.mark.parametrize("key", ["din", "deepfm", "wide_deep", "pnn", "nade"])
def test_an_exported_model_mixes_the_score_as_the_model_does(key):
    model = build(key, {"stack_neighbours": True})
    model.stacking.set(Mixture(share=0.25, scale=2.0, offset=-0.5))
    inputs, batch = random_request(model.schema, 5, 3, seed=0)
    with torch.inference_mode():
        expected, found = model(batch).logits, logits(model, Request(inputs, model.schema))
        model.stacking.set(Mixture())
        assert not torch.allclose(model(batch).logits, expected)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def test_the_option_needs_the_score():
    with pytest.raises(
        InputError, match=r"stack_neighbours: the model sees no score .* set features\.neighbours"
    ):
        build("din", {"stack_neighbours": True}, SCHEMA)
    with pytest.raises(InputError, match="do not remove neighbours with `without`"):
        build("nade", {"stack_neighbours": True, "without": ("neighbours",)})


@pytest.fixture(scope="module")
def scored():
    data = small_data(users=100)
    features, samples = with_neighbours(data.log, data.features, data.samples, max_len=8)
    return replace(data, features=features, samples=samples)


def given(scored, alone):
    """A stacking model with given logits on the validation samples, and a function that predicts with it."""
    validation = sample_set(scored, "validation")
    model = build("base", {"stack_neighbours": True}, scored.features.schema)
    z = torch.tensor(decode(validation.context["neighbours"].numpy()), dtype=torch.float64)

    def predictions(samples):
        return torch.sigmoid(model.stacking(alone, z)).numpy()

    return model, validation, predictions


def test_the_share_with_the_best_gauc_of_the_validation_data_is_chosen(scored):
    validation = sample_set(scored, "validation")
    rng = torch.Generator().manual_seed(0)
    alone = torch.randn(len(validation), generator=rng, dtype=torch.float64)
    model, validation, predictions = given(scored, alone)
    scores = stack(model, validation, predictions, selection="gauc")
    codes = validation.context["neighbours"].numpy()
    z = np.where(codes > 0, (codes - 1) / 4096 - 8, 0)
    standard = alone.numpy().std() / z.std() * (z - z.mean()) + alone.numpy().mean()
    users, labels = validation.user.numpy(), validation.labels.numpy()
    values = [gauc(users, labels, (1 - a) * alone.numpy() + a * standard).value for a in np.arange(10) / 10]
    share, scale, offset = model.stacking.mixture.tolist()
    assert round(share * 10) == int(np.argmax(values)) > 0  # random logits: the score helps
    np.testing.assert_allclose(scale * z + offset, standard, rtol=1e-5, atol=1e-6)
    assert gauc(users, labels, scores).value == pytest.approx(max(values), abs=1e-6)


def test_a_model_that_knows_the_labels_needs_no_score(scored):
    labels = sample_set(scored, "validation").labels.double()
    model, validation, predictions = given(scored, 4 * labels - 2)
    stack(model, validation, predictions, selection="gauc")
    assert model.stacking.mixture[0] == 0


def test_equal_scores_of_all_samples_change_nothing(scored):
    validation = sample_set(scored, "validation")
    validation = replace(
        validation,
        context={**validation.context, "neighbours": torch.full_like(validation.context["neighbours"], 5)},
    )
    model = build("base", {"stack_neighbours": True}, scored.features.schema).float()
    before = predict(model, validation, batch_size=64)
    after = stack(model, validation, lambda samples: predict(model, samples, batch_size=64), selection="gauc")
    np.testing.assert_array_equal(after, before)


def fit_of(scored, folder, *, key="nade", validation="validation"):
    torch.manual_seed(1)
    train = sample_set(scored)
    model = build_model(key, model_config(key, {"stack_neighbours": True}, common=SMALL), train.store.schema)
    options = TrainingOptions(batch_size=64, epochs=3, patience=9, learning_rate=1e-6)
    chosen = sample_set(scored, validation)
    return Fit(
        label="test", model=model, train=train, validation=chosen, options=options, seed=1,
        state_file=folder / "state.pt", fingerprint="", checkpoint_seconds=0.0,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("key", ["nade", "din"])
def test_the_selected_parameters_have_the_mixture_of_their_evaluation(scored, tmp_path, key):
    fit = fit_of(scored, tmp_path, key=key)
    history = fit.run().history
    validation = fit.validation
    scores = predict(fit.model, validation, batch_size=4096)
    value = gauc(validation.user.numpy(), validation.labels.numpy(), scores).value
    assert value == pytest.approx(max(row["validation_gauc"] for row in history), abs=1e-12)
    assert fit.model.stacking.mixture[0] > 0
    restored = fit_of(scored, tmp_path, key=key)  # from the saved state
    restored.run()
    assert torch.equal(restored.model.stacking.mixture, fit.model.stacking.mixture)


def test_the_option_needs_validation_data(scored, tmp_path):
    with pytest.raises(
        InputError, match=r"stack_neighbours: .* chosen on validation data, and there is none"
    ):
        fit_of(scored, tmp_path, validation="nothing")
