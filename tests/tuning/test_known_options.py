"""Models of a leaderboard that keep the options of an earlier one: no trials, the same fit, and their names on the page."""

import pandas as pd
import pytest
from support.leaderboard import small_leaderboard
from support.training import small_data
from support.tuning import seen_data

from deep_interest.errors import InputError
from deep_interest.pipelines.leaderboard.nodes import make_recipe, make_search
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.train.nodes import make_train
from deep_interest.training.parameters import Recipe, Recipes, RowOptions, RunParameters
from deep_interest.tuning.known_options import known_options
from deep_interest.tuning.parameters import SearchRange, SearchRanges, TuningParameters

OURS = {
    "training": {"epochs": 2, "batch_size": 32},
    "model": {"embedding_dim": 4, "hidden": (8,)},
    "models": {"lr": {"training": {"patience": 1}}},
}
EARLIER = {
    "extends": "ours", "searched": True,
    "models": {"lr": {"training": {"learning_rate": 0.02, "patience": 1}}, "base": {"training": {"l2": 0.003}, "model": {"hidden": [4, 4]}}},
}  # fmt: skip
RECIPES = Recipes.model_validate({"ours": OURS, "shop_leaderboard": EARLIER})


def options_of(known="shop_leaderboard", recipe=None, models=("popularity", "lr", "base", "fm")):
    return known_options(RECIPES.root, known, recipe or RECIPES.root["ours"], models)


def test_the_options_are_those_that_the_earlier_leaderboard_has_found():
    assert options_of() == {
        "lr": {"training.learning_rate": 0.02},
        "base": {"training.l2": 0.003, "model.hidden": [4, 4]},
    }
    same = options_of(recipe=RECIPES.root["shop_leaderboard"])  # which sets all of them
    assert same == {**options_of(), "lr": {"training.patience": 1, "training.learning_rate": 0.02}}
    assert options_of(models=("lr", "fm")) == {"lr": options_of()["lr"]}
    assert options_of(known=None) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"known": "shop"}, "leaderboard.known: 'shop' is unknown; the recipes are ours, shop_leaderboard"),
        ({"models": ("fm", "popularity")}, "has options of base, lr, but the models are fm, popularity"),
        ({"known": "ours"}, "has options of no model"),
        (
            {"recipe": Recipe(training={"epochs": 3, "batch_size": 32}, model=OURS["model"])},
            "the recipe shop_leaderboard has other training options than the recipe of this run: epochs;",
        ),
        (
            {"recipe": Recipe(training=OURS["training"], model={"hidden": (8,)})},
            "has other model options than the recipe of this run: embedding_dim;",
        ),
    ],
)
def test_options_that_would_not_be_those_of_the_earlier_leaderboard_are_refused(changes, message):
    with pytest.raises(InputError) as error:
        options_of(**changes)
    assert message in str(error.value)


SETTINGS = DatasetParameters(
    title="Shop",
    recipe="ours",
    protocol={"name": "by_day"},
    models=["lr", "base"],
    features={"item": ["item_id"]},
)


@pytest.mark.slow
def test_a_known_model_gets_no_trials_and_is_fitted_as_with_the_recipe(tmp_path):
    run = RunParameters(workspace=str(tmp_path), device="cpu", threads=1, processes=1)
    ranges = SearchRanges(training={"l2": SearchRange(low=1e-6, high=1e-2, log=True)})
    tuning = TuningParameters(ranges=ranges, searched=("training.l2",))
    leaderboard = small_leaderboard(n_trials=2, known="shop_leaderboard")
    seen, none = seen_data(), RowOptions({})
    found, trials = make_search("small", ("lr", "base", "fm"))(
        seen.log, seen.features, seen.samples, SETTINGS, RECIPES, run, tuning, leaderboard,
        options_lr=none, options_base=none, options_fm=none,
    )  # fmt: skip
    assert set(trials["model"]) == {"fm"}
    assert not list(tmp_path.rglob("lr_leaderboard")) and not list(tmp_path.rglob("base_leaderboard"))
    assert list(found) == ["lr", "base", "fm"]
    assert found["base"]["values"] == options_of()["base"] and found["base"]["finished"] is None
    assert found["fm"]["finished"] == 2 and "known" not in found["fm"]

    data = small_data()
    inputs = (data.log, data.features, data.samples, none, SETTINGS, RECIPES)
    _, here, _ = make_train("small", "base", variant="_leaderboard")(*inputs, run, found, leaderboard)
    there = run.model_copy(update={"recipe": "shop_leaderboard", "seeds": leaderboard.seeds})
    _, with_recipe, _ = make_train("small", "base")(*inputs, there, {})
    measured = [name for name in here if "second" in name]
    pd.testing.assert_frame_equal(
        here.drop(columns=measured), with_recipe.drop(columns=measured), check_exact=True
    )

    written = make_recipe("small")(found, SETTINGS, RECIPES, run)["recipes"]["small_leaderboard"]
    complete = Recipes.model_validate({"ours": OURS, "small_leaderboard": written}).root["small_leaderboard"]
    assert complete.searched == ("base", "fm", "lr")
    assert complete.models["base"].model == {"hidden": [4, 4]}
