"""Position bias in training: gradients, planted effects, weights by hand, and predictions that never read a slot."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from support.training import small_data

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.impressions import logged_slots
from deep_interest.logs.tables import LOGGED_SLOT
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import PositionWeights, TrainingOptions
from deep_interest.training.position import PositionEffect
from deep_interest.training.position_weights import click_weights, with_position_weights
from deep_interest.training.runs import Data

SMALL = {"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)}


def data_with_slots(data: Data | None = None, *, slots: int = 3, seed: int = 0) -> Data:
    data = data or small_data()
    column = np.random.default_rng(seed).integers(1, slots + 1, len(data.samples)).astype(np.int32)
    return replace(data, samples=data.samples.assign(**{LOGGED_SLOT: column}))


def splits(data: Data) -> tuple[SampleSet, SampleSet, SampleSet]:
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    train, validation, test = (
        SampleSet.build(store, data.samples, name, max_len=20) for name in ("train", "validation", "test")
    )
    return train, validation, test


def fit(folder, data: Data, key: str = "base", **options) -> Fit:
    train, validation, _ = splits(data)
    torch.manual_seed(0)
    model = build_model(key, model_config(key, {}, common=SMALL), train.store.schema)
    chosen = TrainingOptions(**({"batch_size": 50, "epochs": 2} | options))
    return Fit(
        label="test", model=model, train=train, validation=validation, options=chosen, seed=4,
        state_file=folder / "state.pt", fingerprint="f", checkpoint_seconds=0,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["logit", "examination"])
def test_derivatives_are_those_of_the_formula(form):
    z = torch.tensor([-2.0, 0.3, 1.5], dtype=torch.float64, requires_grad=True)
    theta = torch.tensor([0.0, -0.7, -1.6], dtype=torch.float64, requires_grad=True)
    p = torch.sigmoid(z + theta) if form == "logit" else theta.exp() * torch.sigmoid(z)
    torch.logit(p).sum().backward()
    effect = PositionEffect(slots=3, reference=1, form=form, window=1)
    effect.effects[1:] = theta.detach()
    shown = effect.shown(z.detach(), torch.tensor([1, 2, 3]))
    torch.testing.assert_close(shown.logits, torch.logit(p).detach())
    torch.testing.assert_close(shown.by_logit, z.grad)
    torch.testing.assert_close(shown.by_effect, theta.grad)


@pytest.mark.parametrize("form", ["logit", "examination"])
def test_the_planted_effect_is_learned_although_slots_follow_relevance(form):
    rng = np.random.default_rng(1)
    z = rng.normal(-0.5, 1.0, 60_000)
    slot = 1 + np.clip(np.round(1 - z + rng.normal(0, 1, len(z))), 0, 2).astype(int)
    planted = np.log([1.0, 0.5, 0.2])
    relevance = 1 / (1 + np.exp(-z))
    of_slot = planted[slot - 1]
    p = np.exp(of_slot) * relevance if form == "examination" else 1 / (1 + np.exp(-z - of_slot))
    label = (rng.random(len(z)) < p).astype(np.float32)
    effect = PositionEffect(slots=3, reference=1, form=form, window=200)
    tensors = [torch.from_numpy(values) for values in (z, slot, label)]
    for logits, slots, labels in zip(*(values.split(300) for values in tensors), strict=True):
        effect.step(effect.shown(logits, slots), slots, labels)
    found = list(effect.named().values())
    expected = np.exp(planted) if form == "examination" else planted
    assert found == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "form"), [("lr", "logit"), ("fm", "examination"), ("din", "examination")])
def test_predictions_do_not_depend_on_the_slots_of_held_out_rows(tmp_path, key, form):
    data = data_with_slots()
    held_out = (data.samples["split"] != "train").to_numpy()
    column = data.samples[LOGGED_SLOT].to_numpy().copy()
    column[held_out] = 0  # missing or invalid slots
    changed = replace(data, samples=data.samples.assign(**{LOGGED_SLOT: column}))
    scores = []
    for name, each in (("one", data), ("other", changed)):
        (tmp_path / name).mkdir()
        made = fit(tmp_path / name, each, key, position=form)
        made.run()
        _, validation, test = splits(each)
        assert validation.slots is None
        assert test.slots is None
        scores.append(predict(made.model, test, batch_size=64))
    assert (scores[0] == scores[1]).all()


@pytest.mark.slow
def test_slots_change_training_and_ignore_does_not(tmp_path):
    names = {"plain": "ignore", "ignored": "ignore", "logit": "logit", "weights": "weights"}
    weights = {}
    for name, position in names.items():
        (tmp_path / name).mkdir()
        data = small_data() if name == "plain" else data_with_slots()
        made = fit(
            tmp_path / name, data, position=position, position_weights={"examination": [1.0, 0.5, 0.2]}
        )
        history = made.run().history
        assert ("log_odds_3" in history[0]) == (name == "logit")
        weights[name] = torch.cat([parameter.flatten() for parameter in made.model.parameters()])
    assert torch.equal(weights["plain"], weights["ignored"])
    assert not torch.equal(weights["plain"], weights["logit"])
    assert not torch.equal(weights["plain"], weights["weights"])


def test_an_interrupted_fit_resumes_with_its_effects(tmp_path, monkeypatch):
    options = {"position": "examination", "epochs": 2, "patience": 9}
    whole = fit(tmp_path, data_with_slots(), **options).run().history
    (tmp_path / "state.pt").unlink()
    steps, killed = Fit.train_step, fit(tmp_path, data_with_slots(), **options)

    def dies_in_the_second_epoch(self, rows):
        if self.progress.total_steps == 6:
            raise KeyboardInterrupt
        return steps(self, rows)

    monkeypatch.setattr(Fit, "train_step", dies_in_the_second_epoch)
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    monkeypatch.undo()
    again = fit(tmp_path, data_with_slots(), **options).run().history
    assert [row["examination_3"] for row in again] == [row["examination_3"] for row in whole]


def test_clicks_are_weighted_by_the_inverse_of_the_examination():
    slots, labels = np.array([1, 2, 2, 3, 3]), np.array([1, 1, 0, 1, 0.25])
    found = click_weights(slots, labels, [1.0, 0.5, 0.05], largest=8.0)
    assert found.tolist() == [1.0, 2.0, 1.0, 8.0, 1 + 0.25 * 7]


def test_weights_of_the_training_set_have_a_mean_of_1():
    train, *_ = splits(data_with_slots())
    made = with_position_weights(
        train, PositionWeights(examination=(1.0, 0.5, 0.25)), reference=1, label="test"
    )
    expected = np.where(train.labels == 1, np.array([1.0, 2.0, 4.0])[train.slots - 1], 1.0)
    np.testing.assert_allclose(made.weights, expected / expected.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position_reference": 9}, r"slot 9 does not occur in training, whose slots are 1 to 3"),
        ({"position": "weights", "position_weights": {"examination": [1.0, 0.5]}}, r"found 2 values, but .* slots 1 to 3"),
        ({"position": "weights", "position_weights": {"same": "shop"}}, r"shop is not a column .* user, request, item_id, category"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_the_log_are_errors(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        fit(tmp_path, data_with_slots(), **options)


@pytest.mark.parametrize("form", ["logit", "examination"])
def test_the_effect_of_slots_needs_final_labels(tmp_path, form):
    data = data_with_slots()
    delayed = replace(data, samples=data.samples.assign(arrived=np.float32(0.9)))
    with pytest.raises(
        InputError, match=f"training.position: {form} learns the effect of the slots from final labels"
    ):
        fit(tmp_path, delayed, position=form)
    fit(tmp_path, delayed, position="ignore")


def test_weights_need_slots(tmp_path):
    with pytest.raises(InputError, match=r"set features\.position to its column"):
        fit(tmp_path, small_data(), position="weights")


def test_slots_that_are_no_positions_are_errors_in_training_rows_only(tmp_path):
    column = pd.Series([1, 2, None, 0, 1.5, "x", 3], name="slot", dtype=object)
    train = np.array([True, True, False, False, False, False, True])
    assert logged_slots(column, train).tolist() == [1, 2, 0, 0, 0, 0, 3]
    for row, value in ((2, "None"), (3, "0"), (4, "1.5"), (5, "'x'")):
        with pytest.raises(InputError, match=rf"slot: 1 of 4 training impressions .* the first is {value}"):
            logged_slots(column, train | (np.arange(7) == row))
    data = data_with_slots()
    data.samples.loc[0, LOGGED_SLOT] = 0
    with pytest.raises(InputError, match=r"1 of .* training samples have no valid slot"):
        fit(tmp_path, data)
    data.samples.loc[0, LOGGED_SLOT] = 12_345
    with pytest.raises(InputError, match=r"the largest slot is 12,345"):
        fit(tmp_path, data)


@pytest.mark.parametrize("group", ["context", "profile", "item"])
def test_the_position_is_not_a_feature_as_well(group):
    with pytest.raises(ValidationError, match=rf"position: slot is also in features\.{group}"):
        FeatureColumns.model_validate(
            {group: ["slot", *(["item_id"] if group == "item" else [])], "position": "slot"}
        )
    assert "slot" not in FeatureColumns(position="slot").names
