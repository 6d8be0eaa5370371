"""A light net that learns from a booster that was trained before it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.training import sample_set, small_data, with_tags

from deep_interest.errors import InputError
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.distillation import booster_of
from deep_interest.training.evaluation import predict_logits
from deep_interest.training.experiment import Experiment
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import Recipe, RecipeModel, RowOptions, RunParameters, TrainingOptions
from deep_interest.training.runs import fit_seed, restore, train_experiment

RECIPE = Recipe(
    training={"batch_size": 32, "epochs": 3, "learning_rate": 0.01},
    model={"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (6, 3)},
)


def experiment(tmp_path, model, options=None, recipe=RECIPE):
    run = RunParameters(device="cpu", processes=1, workspace=str(tmp_path))
    return Experiment("small", model, RowOptions(options or {}), recipe, (1,), run)


def test_the_booster_is_the_ordinary_model_of_the_same_recipe_and_seed(tmp_path):
    data, states = small_data(), []
    distilled = experiment(tmp_path / "distilled", "din_distilled", {"booster": "frozen", "hint_weight": 0.3})
    fit_seed(distilled, data, 1)
    for folder in ("distilled", "alone"):
        checkpoint, _ = train_experiment(experiment(tmp_path / folder, "din"), data)
        states.append(checkpoint["states"][0])
    files = sorted(path.relative_to(tmp_path / "distilled") for path in tmp_path.glob("distilled/**/*.pt"))
    assert [str(file) for file in files] == ["small/din/seed_1.pt", "small/din_distilled/seed_1.pt"]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_finished_booster_is_loaded(tmp_path):
    data = small_data()
    fit_seed(experiment(tmp_path, "din"), data, 1)
    file = tmp_path / "small/din/seed_1.pt"
    before = file.stat().st_mtime_ns
    fit_seed(experiment(tmp_path, "din_distilled", {"booster": "frozen"}), data, 1)
    assert file.stat().st_mtime_ns == before


def test_the_booster_has_the_recipes_options_for_the_ordinary_model():
    recipe = RECIPE.model_copy(
        update={"models": {"dien": RecipeModel(training={"learning_rate": 0.5}, model={"aux_weight": 0.2})}}
    )
    row = {"booster": "frozen", "evolution": "agru", "aux_weight": 1.0, "training": {"mba": 3.0}}
    booster = booster_of(experiment("none", "dien_distilled", row, recipe))
    config, options = booster.config_and_options()
    assert (booster.model, type(config).__name__) == ("dien", "DIENConfig")
    assert (config.evolution, config.aux_weight, config.hidden) == ("agru", 0.2, (8, 4))
    assert (options.learning_rate, options.mba, options.epochs) == (0.5, 3.0, 3)


@pytest.mark.parametrize("booster", ["joint", "none"])
def test_no_booster_is_trained_before_other_light_nets(tmp_path, booster):
    light = experiment(tmp_path, "din_light", {"booster": booster})
    assert booster_of(light) is None
    fit_seed(light, small_data(), 1)
    assert [path.name for path in (tmp_path / "small").iterdir()] == ["din_light"]


@pytest.mark.slow
def test_the_hint_brings_the_logits_closer_to_those_of_the_booster(tmp_path):
    data, distance = small_data(users=200), {}
    recipe = RECIPE.model_copy(update={"training": RECIPE.training | {"epochs": 20, "patience": 100}})
    train = sample_set(data)
    booster, _ = train_experiment(experiment(tmp_path, "din", recipe=recipe), data)
    target = predict_logits(restore(booster, 1), train, batch_size=100)
    for weight in (0.0, 1.0):
        options = {"booster": "frozen", "hint_weight": weight, "light": {"ratio": 0.5}}
        checkpoint, _ = train_experiment(experiment(tmp_path, "din_distilled", options, recipe), data)
        logits = predict_logits(restore(checkpoint, 1), train, batch_size=100)
        distance[weight] = (logits - target).square().mean()
    assert distance[1.0] < 0.7 * distance[0.0]


@pytest.mark.parametrize("booster", ["frozen", "none"])
def test_a_light_net_of_the_boosters_widths_without_hint_is_the_ordinary_model(tmp_path, booster):
    data = small_data()
    options = {"booster": booster, "hint_weight": 0.0, "light": {"ratio": 1.0}}
    (light, _), (ordinary, _) = (
        train_experiment(experiment(tmp_path, model, own), data)
        for model, own in (("din_light", options), ("din", {}))
    )
    assert light["states"][0].keys() == ordinary["states"][0].keys()
    assert all(torch.equal(ordinary["states"][0][name], of) for name, of in light["states"][0].items())


def test_a_checkpoint_of_a_distilled_net_has_no_booster(tmp_path):
    checkpoint, _ = train_experiment(
        experiment(tmp_path, "dien_distilled", {"booster": "frozen", "aux_weight": 1.0}), small_data()
    )
    assert not any("booster" in name or "auxiliary" in name for name in checkpoint["states"][0])


@pytest.mark.parametrize("tags", [False, True], ids=["one-hot", "multi-hot"])
def test_a_batch_has_the_weights_and_the_boosters_logits_of_its_samples(tags):
    data = with_tags(small_data()) if tags else small_data()
    weight = np.arange(len(data.samples)) % 3 + 1
    samples = sample_set(replace(data, samples=data.samples.assign(weight=weight)))
    samples = replace(samples, booster_logits=torch.arange(len(samples)).float())
    rows = torch.tensor([7, 0, 100, 7])
    batch = samples.batch(rows)
    assert batch.booster_logits.tolist() == [7.0, 0.0, 100.0, 7.0]
    train = weight[(data.samples["split"] == "train").to_numpy()]
    assert batch.weights.tolist() == pytest.approx((train[rows] / train.mean()).tolist())
    bare = sample_set(data).batch(rows)
    assert (bare.weights, bare.booster_logits) == (None, None)


def test_a_fit_without_the_boosters_logits_is_refused(tmp_path):
    samples = sample_set(small_data())
    model = build_model("din_light", model_config("din_light", {"booster": "frozen"}), samples.store.schema)
    with pytest.raises(InputError, match="retraining has none; set booster to joint or none"):
        Fit(
            label="test", model=model, train=samples, validation=samples, options=TrainingOptions(), seed=0,
            state_file=tmp_path / "state.pt", fingerprint="",
        )  # fmt: skip
