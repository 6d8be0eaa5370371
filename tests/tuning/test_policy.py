"""The search space of a leaderboard: the same policy for all models, and every value is accepted by every model that it is for."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.training import small_data

from deep_interest.config import dataset_blocks
from deep_interest.errors import InputError
from deep_interest.experiments import TUNABLE, datasets_of, table_for
from deep_interest.logs.schema import Field
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters, TrainingOptions
from deep_interest.tuning.parameters import SearchRange
from deep_interest.tuning.policy import LeaderboardParameters, first_values

CONF = Path(__file__).parents[2] / "conf/base/parameters"
BLOCK = yaml.safe_load((CONF / "leaderboard.yml").read_text())["leaderboard"]
LEADERBOARD = LeaderboardParameters.model_validate(BLOCK)
OPTIONS = yaml.safe_load((CONF / "models.yml").read_text())["models"]
RECIPES = {name: Recipe(**recipe) for name, recipe in yaml.safe_load((CONF / "recipes.yml").read_text())["recipes"].items()}  # fmt: skip
SCHEMA = small_data().features.schema
ALL_TABLES = sorted({model for spec in datasets_of(dataset_blocks()).values() for model in table_for(spec).models})  # fmt: skip


def experiment(model, recipe="ours", run=None):
    return Experiment(
        dataset="small", model=model, options=RowOptions(OPTIONS[model]), recipe=RECIPES[recipe], seeds=(1,),
        run=run or RunParameters(),
    )  # fmt: skip


def searched(model, *, of_dataset=None, **options):
    return LEADERBOARD.searched_of(experiment(model, **options), schema=SCHEMA, of_dataset=of_dataset)


def test_every_model_that_is_trained_in_steps_searches_the_learning_rate_and_one_penalty():
    for model in TUNABLE:
        names = searched(model)
        assert "training.learning_rate" in names, model
        penalties = {"training.l2", "training.mba", "training.difacto"} & set(names)
        assert len(penalties) == 1 or MODELS[model].ablation, model


def test_deep_models_search_the_same_options():
    common = {
        "training.learning_rate", "training.decay_rate", "training.behavior_dropout", "training.max_len", "model.embedding_dim",
        "model.hidden", "model.batch_norm", "model.mlp_dropout", "model.item_bias",
    }  # fmt: skip
    l2, product = {"training.l2", "training.updated_rows"}, {"model.interest_product"}
    expected = {
        "base": {*l2, *product, "model.pooling"},
        "base_mba": {"training.mba", *product, "model.pooling"},
        "din": {*l2, *product},
        "din_softmax": {*l2, *product},
        "din_mba_dice": {"training.mba", *product},
        "gru_augru": {*l2, *product},
        "dien": {*l2, *product, "model.aux_weight"},
        "dien_mba": {"training.mba", *product, "model.aux_weight"},
        "dmin": {*l2, "model.aux_weight"},
        "bst": {*l2, "model.dropout"},
    }
    for model, own in expected.items():
        assert set(searched(model)) == common | own, model


def test_models_in_closed_form_search_their_own_options_or_nothing():
    assert searched("popularity") == searched("item_rate") == ()
    assert set(searched("item_knn")) == {
        "model.neighbors", "model.shrinkage", "model.normalize", "training.max_len",
    }  # fmt: skip
    assert "model.leaves" in searched("boosted")


def test_what_defines_a_model_or_is_set_by_the_run_or_the_dataset_is_not_searched():
    assert "training.max_len" not in searched("din_newest")  # the newest 50 behaviours
    assert "training.max_len" not in searched("din", of_dataset={"max_len": 1000})
    assert "training.max_len" not in searched("din", run=RunParameters(options={"max_len": 50}))
    assert "training.l2" in searched("din", of_dataset={"l2": 0.1})  # a tuned value of the dataset
    assert "model.aux_weight" not in searched("dien_light_alone")
    assert "model.hint_weight" in searched("din_light")
    assert "model.hint_weight" in searched("dien_distilled")


def test_models_without_item_ids_have_no_bias_per_item():
    schema = SCHEMA.without(["item_id"])
    assert "model.item_bias" not in LEADERBOARD.searched_of(experiment("base"), schema=schema)
    assert "model.item_bias" not in searched("reg_no_goods")


def test_the_product_is_searched_only_if_interest_and_candidate_have_the_same_fields_and_width():
    schema = SCHEMA.model_copy(update={"behavior": (Field(name="action", size=3),)})
    assert "model.interest_product" not in LEADERBOARD.searched_of(experiment("base"), schema=schema)
    narrow = replace(experiment("dien"), options=RowOptions(OPTIONS["dien"] | {"gru_size": 5}))
    assert "model.interest_product" not in LEADERBOARD.searched_of(narrow, schema=SCHEMA)


@pytest.mark.parametrize("model", ALL_TABLES)
def test_every_value_of_the_search_space_is_accepted_by_the_model(model):
    ranges = LEADERBOARD.ranges.by_name()
    names = searched(model)
    LEADERBOARD.check([model])
    recipe = experiment(model).recipe
    for name in names:
        for value in ranges[name].examples():
            tried = recipe.with_values(model, {name: value})
            tried.model_of(model, RowOptions(OPTIONS[model]))
            tried.training_of(model, RowOptions(OPTIONS[model]), {})


@pytest.mark.parametrize("model", [model for model in ALL_TABLES if not MODELS[model].closed_form])
@pytest.mark.parametrize("last", [False, True])
def test_a_model_can_be_built_with_the_first_and_the_last_value_of_every_range(model, last):
    ranges = LEADERBOARD.ranges.by_name()
    values = {name: ranges[name].examples()[-1 if last else 0] for name in searched(model)}
    recipe = experiment(model).recipe.with_values(model, values)
    config = recipe.model_of(model, RowOptions(OPTIONS[model]))
    schema = SCHEMA
    if model == "sim_hard":
        config = config.model_copy(update={"search_field": SCHEMA.shared[0].name})
    assert build_model(model, config, schema) is not None


@pytest.mark.parametrize("recipe", ["ours", "demo"])
def test_the_first_trial_has_the_options_of_the_recipe(recipe):
    tried = experiment("base", recipe=recipe)
    ranges = LEADERBOARD.ranges.by_name()
    values = first_values(tried, {name: ranges[name] for name in searched("base")})
    config, training = tried.config_and_options()
    assert values["training.learning_rate"] == training.learning_rate
    assert values["model.embedding_dim"] == config.embedding_dim
    assert values["model.pooling"] == config.pooling == "mean"
    assert values["training.l2"] == max(
        training.l2, ranges["training.l2"].low
    )  # 0 is not on a logarithmic scale
    assert ("model.hidden" in values) == (recipe == "ours")  # 100-40 is not one of the choices


@pytest.mark.parametrize(
    ("searched", "value", "nearest"),
    [
        (SearchRange(low=0.1, high=1.0), 5, 1.0),
        (SearchRange(low=1, high=9, integer=True), 4, 4),
        (SearchRange(low=0.1, high=1.0), None, None),
        (SearchRange(choices=[16, 32, 64]), 18, 16),
        (SearchRange(choices=[[200, 80], [64, 32]]), (200, 80), "200-80"),
        (SearchRange(choices=[[200, 80], [64, 32]]), (100, 40), None),
        (SearchRange(choices=[False, True]), True, True),
        (SearchRange(choices=["sum", "mean"]), "max", None),
    ],
)
def test_the_nearest_value_of_a_range(searched, value, nearest):
    found = searched.nearest(value)
    assert (found, type(found)) == (nearest, type(nearest))


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        ("50 100 200", (50, 100, 200)),
        ("0 0.5", (0, 0.5)),
        ("1e-3 0.01", (1e-3, 0.01)),
        ("true false", (True, False)),
        ("sum mean", ("sum", "mean")),
        ("200-80 64", ((200, 80), 64)),
    ],
)
def test_choices_can_be_words_as_in_params(words, choices):
    found = SearchRange(choices=words).choices
    assert found == choices
    assert list(map(type, found)) == list(map(type, choices))


def test_widths_are_stored_as_text_and_read_back():
    widths = SearchRange(choices=[[200, 80], [64, 32, 16]])
    assert widths.drawn_choices == ["200-80", "64-32-16"]
    assert widths.value_of("64-32-16") == (64, 32, 16)
    assert model_config("base", {"hidden": widths.value_of("200-80")}).hidden == (200, 80)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"searched": ["model.widths"]}, "searched: model.widths has no range"),
        ({"models": {"dim": ["training.l2"]}}, "model 'dim' is unknown"),
        ({"n_trials": 0}, "n_trials"),
        ({"budget": 3}, "budget"),
    ],
)
def test_wrong_parameters_are_refused(change, message):
    with pytest.raises((ValueError, InputError), match=message):
        LeaderboardParameters.model_validate({**BLOCK, **change})


def test_a_range_that_an_option_does_not_accept_is_refused_before_the_search():
    wrong = {**BLOCK, "ranges": {**BLOCK["ranges"], "model": {**BLOCK["ranges"]["model"], "dropout": {"low": 0.0, "high": 2.0}}}}  # fmt: skip
    parameters = LeaderboardParameters.model_validate(wrong)
    parameters.check(["din"])
    with pytest.raises(
        InputError, match=r"leaderboard\.ranges\.model\.dropout: the option does not accept 2"
    ):
        parameters.check(["bst"])
    unknown = {**BLOCK, "models": {"lr": ["model.embedding_dim"]}}
    with pytest.raises(
        InputError, match=r"leaderboard\.models\.lr: model\.embedding_dim is not an option of lr"
    ):
        LeaderboardParameters.model_validate(unknown).check(["lr"])


def test_all_ranges_are_used():
    used = set(LEADERBOARD.searched) | {name for names in LEADERBOARD.models.values() for name in names}
    assert used == set(LEADERBOARD.ranges.by_name())
    assert set(TrainingOptions.model_fields) >= {name.split(".")[1] for name in used if name.startswith("training.")}  # fmt: skip
