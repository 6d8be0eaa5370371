from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from support.training import sample_set, small_data, with_tags

from deep_interest.errors import InputError
from deep_interest.models.registry import MODELS
from deep_interest.training import runs
from deep_interest.training.content import Data
from deep_interest.training.device import resolve_device
from deep_interest.training.evaluation import predict
from deep_interest.training.parameters import Recipe, RecipeModel, Recipes, RowOptions, RunParameters
from deep_interest.training.runs import (
    Experiment,
    choose_recipe,
    predict_experiment,
    restore,
    train_experiment,
    untrained,
)

MODELS_YML = Path(__file__).parents[2] / "conf/base/parameters/models.yml"
RECIPE = Recipe(training={"batch_size": 32, "epochs": 2}, model={"embedding_dim": 4, "hidden": (8, 4)})


def experiment(tmp_path, *, model="base", seeds=(1, 2), **run):
    settings = RunParameters(**({"device": "cpu", "processes": 1, "workspace": str(tmp_path)} | run))
    return Experiment(
        dataset="small", model=model, options=RowOptions({}), recipe=RECIPE, seeds=seeds, run=settings
    )


def test_every_seed_is_fitted_and_the_checkpoint_scores_like_the_fits(tmp_path):
    data = small_data()
    checkpoint, curves = train_experiment(experiment(tmp_path), data)
    assert list(curves.groupby("seed").size()) == [2, 2]
    predictions = predict_experiment(checkpoint, experiment(tmp_path).run, data)
    assert list(predictions) == ["user", "item", "seed_1", "seed_2"]
    assert len(predictions) == (data.samples["split"] == "test").sum()
    direct = predict(restore(checkpoint, 2), sample_set(data, "test"), batch_size=7)
    np.testing.assert_allclose(predictions["seed_2"], direct, atol=1e-7)
    assert not np.allclose(predictions["seed_1"], predictions["seed_2"])


def test_the_untrained_model_is_the_one_that_the_fit_began_with_and_draws_nothing_from_others(tmp_path):
    checkpoint, _ = train_experiment(
        replace(
            experiment(tmp_path, seeds=(1,)),
            recipe=RECIPE.model_copy(
                update={
                    "training": {
                        "batch_size": 32,
                        "epochs": 1,
                        "learning_rate": 1e-12,
                        "unknown": "untrained",
                    }
                }
            ),
        ),
        small_data(),
    )
    state = torch.random.get_rng_state()
    before, after = untrained(checkpoint, 1), restore(checkpoint, 1)
    assert torch.equal(state, torch.random.get_rng_state())
    for one, other in zip(before.parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    assert any(
        not torch.equal(one, other)
        for one, other in zip(before.parameters(), untrained(checkpoint, 2).parameters(), strict=True)
    )


def test_a_fit_removes_what_a_killed_one_has_left_half_written(tmp_path):
    folder = tmp_path / "small/base"
    folder.mkdir(parents=True)
    (folder / ".seed_1.pt.killed.part").write_bytes(b"half a state")
    train_experiment(experiment(tmp_path, seeds=(1,)), small_data())
    assert list(folder.rglob("*.part")) == []


def test_a_damaged_fit_is_one_warning_and_is_fitted_again_to_the_same_result(tmp_path, caplog):
    data, file = small_data(), tmp_path / "small/base/seed_1.pt"
    first, _ = train_experiment(experiment(tmp_path, seeds=(1,)), data)
    state = torch.load(file, weights_only=True)
    next(iter(state["best_model"].values())).view(-1)[0] += 1  # a whole file with another value
    torch.save(state, file)
    again, _ = train_experiment(experiment(tmp_path, seeds=(1,)), data)
    (line,) = [
        record.getMessage() for record in caplog.records if "the fit starts again" in record.getMessage()
    ]
    assert line.startswith(f"{file}: it does not match its checksum")
    torch.testing.assert_close(again["states"][0], first["states"][0], rtol=0, atol=0)


def test_finished_seeds_are_kept_when_a_seed_is_added(tmp_path):
    data = small_data()
    first, _ = train_experiment(experiment(tmp_path, seeds=(1,)), data)
    stamp = (tmp_path / "small/base/seed_1.pt").stat().st_mtime_ns
    both, _ = train_experiment(experiment(tmp_path, seeds=(1, 2)), data)
    assert (tmp_path / "small/base/seed_1.pt").stat().st_mtime_ns == stamp
    torch.testing.assert_close(both["states"][0], first["states"][0])


@pytest.mark.parametrize("change", ["data", "options", "recipe"])
def test_a_changed_fit_is_trained_again(tmp_path, change):
    data, chosen = small_data(), experiment(tmp_path, seeds=(1,))
    train_experiment(chosen, data)
    before = (tmp_path / "small/base/seed_1.pt").read_bytes()
    if change == "data":
        data.samples.loc[0, "label"] = 1 - data.samples.loc[0, "label"]
    elif change == "options":
        chosen = Experiment(**(vars(chosen) | {"options": RowOptions({"pooling": "mean"})}))
    else:
        chosen = Experiment(
            **(vars(chosen) | {"recipe": Recipe(training={**RECIPE.training, "l2": 0.1}, model=RECIPE.model)})
        )
    train_experiment(chosen, data)
    assert (tmp_path / "small/base/seed_1.pt").read_bytes() != before


def test_popularity_has_one_seed_and_costs_nothing(tmp_path):
    data = small_data()
    checkpoint, curves = train_experiment(experiment(tmp_path, model="popularity"), data)
    assert checkpoint["seeds"] == [1]
    assert curves["seconds"].sum() == 0
    assert list(predict_experiment(checkpoint, experiment(tmp_path).run, data)) == ["user", "item", "seed_1"]


def test_a_device_that_does_not_exist_is_named():
    with pytest.raises(
        InputError, match=r"training\.device: 'warp' does not exist here; this machine has cpu"
    ):
        resolve_device("warp")
    with pytest.raises(InputError, match="'cuda:99' does not exist here"):
        resolve_device("cuda:99")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_an_unknown_recipe_is_named_and_the_runs_recipe_goes_first():
    recipes = {
        "ours": Recipe(training={"epochs": 3, "l2": 0.1}),
        "paper_din": Recipe(training={"epochs": 50}),
    }
    own = choose_recipe(recipes, RunParameters(), default="ours", training={"l2": 0.2})
    assert own.training == {"epochs": 3, "l2": 0.2}
    assert choose_recipe(
        recipes, RunParameters(recipe="paper_din"), default="ours", training={"l2": 0.2}
    ).training == {"epochs": 50}
    with pytest.raises(
        InputError, match=r"training\.recipe: 'mine' is unknown; the recipes are ours, paper_din"
    ):
        choose_recipe(recipes, RunParameters(recipe="mine"), default="ours", training={})


def test_the_rows_own_options_go_before_the_recipes_and_the_recipes_for_the_row_before_those():
    recipe = Recipe(
        training={"epochs": 3, "l2": 0.1, "batch_size": 7},
        model={"embedding_dim": 5, "pooling": "mean"},
        models={"din": RecipeModel(training={"mba": 2.0}, model={"normalize": "none"})},
    )
    row = RowOptions({"normalize": "softmax", "difference": True, "training": {"mba": 1.0, "l2": 0.0}})
    training = recipe.training_of("din", row, {"epochs": 9})
    assert (training.epochs, training.l2, training.batch_size, training.mba) == (9, 0.0, 7, 2.0)
    model = recipe.model_of("din", row)
    assert (model.embedding_dim, model.normalize, model.difference) == (5, "none", True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"models": {"dinn": {}}}, "dinn is not a model"),
        ({"models": {"din": {"model": {"pooling": "sum"}}}}, "pooling"),
        ({"models": {"din": {"training": {"mbaa": 1}}}}, "mbaa"),
        ({"model": {"pool": "sum"}}, "no model has the option pool"),
    ],
)
def test_a_recipe_with_an_unknown_name_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Recipe.model_validate(wrong)


def test_a_recipe_has_the_options_of_the_one_that_it_extends_where_it_has_none():
    recipes = Recipes.model_validate({
        "mine": {"extends": "tuned", "training": {"epochs": 9}},
        "tuned": {"extends": "ours", "models": {"din": {"training": {"l2": 0.3}}, "lr": {"training": {"l2": 0.0}}}},
        "ours": {
            "training": {"epochs": 3, "batch_size": 7}, "model": {"embedding_dim": 5},
            "models": {"din": {"training": {"l2": 0.1, "mba": 2.0}, "model": {"normalize": "none"}}},
        },
    }).root  # fmt: skip
    assert recipes["ours"].models["din"].training == {"l2": 0.1, "mba": 2.0}
    training = recipes["mine"].training_of("din", RowOptions({}), {})
    assert (training.epochs, training.batch_size, training.l2, training.mba) == (9, 7, 0.3, 2.0)
    assert recipes["mine"].training_of("lr", RowOptions({}), {}).l2 == 0.0
    model = recipes["mine"].model_of("din", RowOptions({}))
    assert (model.embedding_dim, model.normalize) == (5, "none")


def test_a_recipe_names_the_models_of_all_searches_that_it_has_options_of():
    recipes = Recipes.model_validate({
        "mine": {"extends": "found", "searched": ["fm"], "models": {"pnn": {"training": {"l2": 0.1}}}},
        "found": {"extends": "ours", "searched": True, "models": {"din": {"training": {"l2": 0.3}}, "lr": {}}},
        "ours": {"models": {"dien": {"training": {"l2": 0.1}}}},
    }).root  # fmt: skip
    assert recipes["mine"].searched == ("din", "fm", "lr")
    assert recipes["found"].searched == ("din", "lr")
    assert recipes["ours"].searched == Recipe(searched=False).searched == ()
    with pytest.raises(ValueError, match="dinn is not a model; the models are"):
        Recipe(searched=["dinn"])


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        (
            {"mine": {"extends": "our"}, "ours": {}},
            "mine extends our, which is unknown; the recipes are mine, ours",
        ),
        (
            {"a": {"extends": "b"}, "b": {"extends": "a"}},
            "a extends b extends a; a recipe cannot extend itself",
        ),
        ({"a": {"extends": "a"}}, "a extends a"),
    ],
)
def test_a_recipe_that_extends_no_other_is_refused(recipes, message):
    with pytest.raises(ValueError, match=message):
        Recipes.model_validate(recipes)


def test_an_unknown_training_option_of_a_row_is_refused():
    with pytest.raises(ValueError, match="mbaa"):
        RowOptions({"training": {"mbaa": 1}})


@pytest.mark.slow
@pytest.mark.parametrize("model", [key for key, row in MODELS.items() if not row.closed_form])
def test_every_row_trains_resumes_its_checkpoint_and_scores(tmp_path, model):
    data, options = small_data(), yaml.safe_load(MODELS_YML.read_text())["models"][model]
    chosen = replace(experiment(tmp_path, model=model, seeds=(1,)), options=RowOptions(options))
    chosen = replace(chosen, run=chosen.run.model_copy(update={"options": {"epochs": 1}}))
    checkpoint, curves = train_experiment(chosen, data)
    assert np.isfinite(curves["train_loss"]).all()
    assert ("test_auc" in curves) == model.startswith("reg_")
    scores = predict_experiment(checkpoint, chosen.run, data)["seed_1"]
    assert scores.between(0, 1).all()
    assert scores.nunique() > 1


def test_the_filter_is_kept_in_the_checkpoint(tmp_path):
    chosen = replace(experiment(tmp_path, seeds=(1,)), options=RowOptions({"keep_top": 3}))
    checkpoint, _ = train_experiment(chosen, small_data())
    assert restore(checkpoint, 1).embeddings.tables["item_id"].kept.sum() == 3


def test_a_checkpoint_does_not_score_other_data_than_it_was_trained_on(tmp_path):
    data, chosen = small_data(), experiment(tmp_path, seeds=(1,))
    checkpoint, _ = train_experiment(chosen, data)
    assert predict_experiment(checkpoint, chosen.run, data).attrs["data"] == data.fingerprint()
    test = data.samples.index[data.samples["split"] == "test"]
    data.samples.loc[test[0], "label"] = 1 - data.samples.loc[test[0], "label"]
    with pytest.raises(
        InputError, match=r"small\.base: .*train it again with `kedro run --pipelines=small\.base`"
    ):
        predict_experiment(checkpoint, chosen.run, data)


def test_a_fingerprint_follows_the_values_not_how_they_are_stored(tmp_path):
    from deep_interest.logs.storage import load_features, load_log, save_features, save_log

    data = with_tags(small_data())
    save_log(data.log, tmp_path / "log")
    save_features(data.features, tmp_path / "features")
    data.samples.to_parquet(tmp_path / "samples.parquet", index=False)
    stored = Data(
        load_log(tmp_path / "log"), load_features(tmp_path / "features"), pd.read_parquet(tmp_path / "samples.parquet")
    )  # fmt: skip
    assert stored.fingerprint() == data.fingerprint()
    tags = data.features.value_sets["tags"]
    data.features.value_sets["tags"] = replace(tags, values=tags.values[::-1].copy())
    assert stored.fingerprint() != data.fingerprint()


def test_the_penalty_and_the_filter_count_the_training_samples_alone(tmp_path, monkeypatch):
    """n_j of DIN eq. 6 and the kept ids, against counts by hand over the training split."""
    data, seen = small_data(), []
    train = data.samples[data.samples["split"] == "train"]
    held = [
        {int(item), *data.log.fields["item_id"][data.log.offsets[user] :][:end].tolist()}
        for user, item, end in zip(train["user"], train["item"], train["history_end"], strict=True)
    ]
    expected = np.bincount([code for ids in held for code in ids], minlength=41)
    assert data.samples["split"].eq("validation").sum() != len(train)

    class Spy(runs.Fit):
        def __post_init__(self):
            super().__post_init__()
            seen.append(self)

    monkeypatch.setattr(runs, "Fit", Spy)
    recipe = RECIPE.model_copy(update={"training": {**RECIPE.training, "epochs": 1, "mba": 0.1}})
    chosen = replace(experiment(tmp_path, seeds=(1,)), recipe=recipe, options=RowOptions({"keep_top": 3}))
    runs.fit_seed(chosen, data, 1)
    kept = seen[0].model.embeddings.tables["item_id"].kept
    order = np.argsort(-expected, kind="stable")[:3]
    assert set(kept.nonzero().squeeze(1).tolist()) == set(order.tolist())
    whole = replace(
        chosen, options=RowOptions({}), run=chosen.run.model_copy(update={"workspace": str(tmp_path / "2")})
    )
    runs.fit_seed(whole, data, 1)
    np.testing.assert_array_equal(seen[1].occurrences["item_id:item+behavior"].numpy(), expected)
