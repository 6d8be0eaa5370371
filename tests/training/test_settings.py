"""What a row is made with and written down as; which data a checkpoint belongs to; devices, threads and processes."""

import platform
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.training import small_data

import deep_interest
from deep_interest.errors import InputError
from deep_interest.models.registry import MODELS, ModelSpec, build_model, model_config
from deep_interest.training import runs
from deep_interest.training.evaluation import predict
from deep_interest.training.parameters import Recipe, RecipeModel, RowOptions, RunParameters
from deep_interest.training.runs import (
    Experiment,
    predict_experiment,
    require_same_data,
    restore,
    settings_of,
    train_experiment,
    untrained,
)

RECIPE = Recipe(training={"batch_size": 32, "epochs": 2}, model={"embedding_dim": 4, "hidden": (8, 4)})


def experiment(
    folder="unused", *, model="base", options=None, variant="", seeds=(1, 2), training=None, **run
):
    """A row of the table; ``training`` are the run's own training options."""
    defaults = {"device": "cpu", "processes": 1, "workspace": str(folder), "options": training or {}}
    settings = RunParameters(**(defaults | run))
    return Experiment("small", model, RowOptions(options or {}), RECIPE, seeds, settings, variant)


def test_a_row_is_written_down_with_everything_that_made_it():
    chosen = experiment(
        model="din", options={"normalize": "softmax", "training": {"mba": 0.5}}, training={"epochs": 7}
    )
    settings = settings_of(
        chosen, recipe="ours", tuned={"training.mba": 0.5}, data="abc", tuned_on_other_data=True
    )
    config, training = settings.pop("config"), settings.pop("training")
    assert settings == {
        "dataset": "small", "model": "din", "recipe": "ours", "seeds": [1, 2], "device": "cpu", "engine": "compiled", "tuned": {"training.mba": 0.5},
        "versions": {
            "deep_interest": deep_interest.__version__, "torch": torch.__version__, "python": platform.python_version(),
        },
        "data": "abc", "tuned_on_other_data": True, "searched": True,
    }  # fmt: skip
    assert (config["normalize"], config["hidden"], config["embedding_dim"]) == (
        "softmax",
        [8, 4],
        4,
    )  # lists, as in JSON
    assert (training["mba"], training["epochs"], training["batch_size"], training["optimizer"]) == (
        0.5,
        7,
        32,
        "adam",
    )


def test_the_names_of_a_variant():
    chosen = experiment(model="din", variant="+tuned")
    assert (chosen.model_variant, chosen.name) == ("din+tuned", "small.din+tuned")
    assert (experiment().model_variant, experiment().name) == ("base", "small.base")


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (
            {"data": "other"},
            r"^small\.din: the samples, features or behaviours have changed .* with `kedro run --pipelines=small\.din`$",
        ),
        ({}, r"^small\.din: "),
        (
            {"data": "other", "variant": "_tuned"},
            r"^small\.din_tuned: .* with `kedro run --pipelines=tuned\.small\.din`$",
        ),
        ({"data": "other", "variant": ""}, r"with `kedro run --pipelines=small\.din`$"),
    ],
)
def test_a_checkpoint_of_other_data_names_the_command_that_trains_it_again(checkpoint, message):
    with pytest.raises(InputError, match=message):
        require_same_data({"dataset": "small", "model": "din"} | checkpoint, "these")
    require_same_data({"dataset": "small", "model": "din"} | checkpoint | {"data": "these"}, "these")


@pytest.mark.parametrize(
    ("device", "run", "expected"),
    [("cpu", {}, 6), ("cpu", {"threads": 2}, 3), ("cpu", {"threads": 4}, 1), ("cpu", {"threads": 9}, 1), ("cuda", {}, 1),
     ("cpu", {"processes": 5, "threads": 9}, 5), ("cuda", {"processes": 5}, 1)],
)  # fmt: skip
def test_one_process_a_core_unless_the_run_says_otherwise(monkeypatch, device, run, expected):
    monkeypatch.setattr(runs, "usable_cores", lambda: 6)
    assert runs._processes(RunParameters(**run), torch.device(device)) == expected


def test_the_run_sets_the_threads_and_the_device(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    assert runs.prepare_device(RunParameters(device="cpu")) == torch.device("cpu")
    assert runs.prepare_device(RunParameters(device="meta", threads=3)) == torch.device("meta")
    assert threads == [3]


def test_the_checkpoint_holds_the_row_and_its_parameters(tmp_path):
    data = small_data()
    chosen = experiment(
        tmp_path, model="din", options={"training": {"epochs": 1}}, variant="+x", training={"epochs": 1}
    )
    checkpoint, curves = train_experiment(chosen, data)
    assert list(checkpoint) == [
        "dataset",
        "model",
        "variant",
        "config",
        "training",
        "schema",
        "seeds",
        "data",
        "states",
    ]
    assert (checkpoint["dataset"], checkpoint["model"], checkpoint["variant"]) == ("small", "din", "+x")
    assert checkpoint["seeds"] == [1, 2]
    assert checkpoint["data"] == data.fingerprint()
    assert '"epochs":1' in checkpoint["training"]
    assert '"embedding_dim":4' in checkpoint["config"]
    assert checkpoint["schema"] == data.features.schema.model_dump_json()
    assert sorted(file.name for file in (tmp_path / "small/din+x").glob("*.pt")) == ["seed_1.pt", "seed_2.pt"]
    assert list(curves)[:2] == ["seed", "epoch"]
    for seed, state in zip((1, 2), checkpoint["states"], strict=True):
        model = restore(checkpoint, seed)
        assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_the_untrained_model_begins_from_its_seed(tmp_path):
    chosen = experiment(tmp_path, seeds=(3,), training={"epochs": 1})
    checkpoint, _ = train_experiment(chosen, small_data())
    torch.manual_seed(3)
    expected = build_model(
        "base", model_config("base", {}, common=RECIPE.model), small_data().features.schema
    )
    for one, other in zip(untrained(checkpoint, 3).parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)


def test_predictions_are_the_rows_of_a_split_in_their_order(tmp_path):
    data, chosen = (
        small_data(),
        experiment(tmp_path, seeds=(1,), evaluation_batch_size=9, training={"epochs": 1}),
    )
    checkpoint, _ = train_experiment(chosen, data)
    for split in ("test", "validation"):
        found = predict_experiment(
            checkpoint, chosen.run, data, **({} if split == "test" else {"split": split})
        )
        rows = data.samples[data.samples["split"] == split]
        assert found.index.tolist() == list(range(len(rows)))
        np.testing.assert_array_equal(found[["user", "item"]].to_numpy(), rows[["user", "item"]].to_numpy())
        assert found.attrs["data"] == data.fingerprint()


def test_the_windows_of_a_prediction_are_those_of_the_training(tmp_path):
    data = small_data()
    recipe = RECIPE.model_copy(update={"training": {**RECIPE.training, "max_len": 2, "epochs": 1}})
    chosen = replace(experiment(tmp_path, seeds=(1,)), recipe=recipe)
    checkpoint, _ = train_experiment(chosen, data)
    from support.training import sample_set

    short = predict(restore(checkpoint, 1), sample_set(data, "test", max_len=2), batch_size=50)
    np.testing.assert_allclose(predict_experiment(checkpoint, chosen.run, data)["seed_1"], short, atol=1e-7)


@pytest.mark.parametrize("key", ["item_rate", "item_knn", "boosted"])
def test_a_closed_form_row_has_its_validation_and_no_epochs(tmp_path, key):
    data = small_data()
    checkpoint, curves = train_experiment(experiment(tmp_path, model=key), data)
    assert checkpoint["seeds"] == [1]
    (row,) = curves.to_dict("records")
    assert list(row) == ["seed", "epoch", "samples", "seconds", "validation_loss", "validation_gauc"]
    assert (row["seed"], row["epoch"], row["samples"], row["seconds"]) == (1, 0.0, 0, 0.0)
    from deep_interest.evaluation.metrics import gauc, logloss

    scores = predict_experiment(checkpoint, experiment().run, data, split="validation")["seed_1"].to_numpy()
    rows = data.samples[data.samples["split"] == "validation"]
    labels = rows["label"].to_numpy()
    assert row["validation_loss"] == pytest.approx(logloss(labels, scores), rel=1e-6)
    assert row["validation_gauc"] == pytest.approx(gauc(rows["user"].to_numpy(), labels, scores).value)
    data.samples["split"] = data.samples["split"].replace({"validation": "train"})
    assert list(train_experiment(experiment(tmp_path, model=key), data)[1]) == [
        "seed",
        "epoch",
        "samples",
        "seconds",
    ]


def test_a_fit_gets_the_runs_intervals_and_the_callers_callback(tmp_path, monkeypatch):
    made = []

    class Fit:
        history = "rows"

        def __init__(self, **options):
            made.append(options)

        def run(self):
            return self

    monkeypatch.setattr(runs, "Fit", Fit)
    callback = lambda rows: None  # noqa: E731
    chosen = experiment(
        tmp_path,
        model="reg_mba",
        evaluation_batch_size=77,
        checkpoint_seconds=5,
        options={"training": {"mba": 0.1}},
    )
    fitted = runs.fit_seed(chosen, small_data(), 2, after_evaluation=callback)
    assert fitted.history == "rows"
    options = made[0]
    assert options["label"] == "small.reg_mba, seed 2"
    assert (options["seed"], options["evaluation_batch_size"], options["checkpoint_seconds"]) == (2, 77, 5)
    assert options["state_file"] == tmp_path / "small" / "reg_mba" / "seed_2.pt"
    assert options["after_evaluation"] is callback
    assert options["watched"] is None
    assert options["unknown"] is not None
    assert len(options["train"]) == 216
    assert len(options["validation"]) == 72
    assert set(options["occurrences"]) == {"item_id:item+behavior", "category:item+behavior"}
    changed = experiment(
        tmp_path, options={"training": {"unknown": "untrained", "watch_test": True, "max_len": 3}}
    )
    runs.fit_seed(changed, small_data(), 2)
    assert made[1]["unknown"] is None
    assert len(made[1]["watched"]) == 72
    assert made[1]["train"].max_len == made[1]["validation"].max_len == 3
    assert made[1]["after_evaluation"] is None


def test_everything_that_decides_a_fit_is_in_its_fingerprint(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(runs, "fingerprint", lambda *parts: found.append(parts) or "f")
    data = small_data()
    runs.fit_seed(experiment(tmp_path, training={"epochs": 1}), data, 5)
    key, config, options, schema, device, seed, content = found[0]
    assert (key, device, seed, content) == ("base", "cpu", 5, data.fingerprint())
    assert schema == data.features.schema.model_dump_json()
    assert '"epochs":1' in options
    assert '"hidden":[8,4]' in config


def test_values_of_a_search_go_before_all_others_of_their_row():
    recipe = Recipe(
        training={"l2": 0.1},
        models={
            "din": RecipeModel(training={"mba": 1.0}, model={"normalize": "none"}),
            "base": RecipeModel(),
        },
    )
    changed = recipe.with_values("din", {"training.mba": 2.0, "model.difference": True})
    assert changed.models["din"] == RecipeModel(
        training={"mba": 2.0}, model={"normalize": "none", "difference": True}
    )
    assert changed.models["base"] == RecipeModel()
    assert changed.training == {"l2": 0.1}
    assert recipe.models["din"].training == {"mba": 1.0}
    assert recipe.with_values("lr", {"training.l2": 0.5}).models["lr"] == RecipeModel(training={"l2": 0.5})


def test_a_row_of_the_table_is_a_class_and_is_part_of_it_unless_configured_otherwise():
    row = ModelSpec("Mine", "din:DIN", "attention")
    assert (row.baseline, row.ablation, row.closed_form, row.impressions) == (False, False, False, False)
    assert row.load().__name__ == "DIN"
    assert all(
        MODELS[key].load().__module__ == f"deep_interest.models.{MODELS[key].path.split(':')[0]}"
        for key in MODELS
    )
