"""The models with mini-batch aware regularisation are configured alike, so that they can be compared."""

from pathlib import Path

import pytest
import yaml

from deep_interest.models.registry import MODELS

CONF = Path(__file__).parents[1] / "conf"
MBA = [key for key, model in MODELS.items() if "_mba" in key and not model.ablation]


def read(path, *keys):
    found = yaml.safe_load((CONF / path).read_text())
    for key in keys:
        found = found[key]
    return found


RECIPES = {
    f"{path}: {name}": recipe["models"]
    for path in ("base/parameters/recipes.yml", "industrial/parameters.yml")
    for name, recipe in read(path, "recipes").items()
    if any("mba" in options.get("training", {}) for options in recipe.get("models", {}).values())
}
"""Options of single models in the recipes that set a penalty; without one the penalty is that of `models.yml`."""


def test_the_best_baseline_and_din_both_have_a_model_with_mba():
    assert {"base_mba", "pnn_mba", "din_mba", "din_softmax_mba", "dien_mba"} <= set(MBA)
    assert (MODELS["pnn_mba"].name, MODELS["pnn_mba"].path) == ("PNN with MBA Reg.", MODELS["pnn"].path)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_gives_every_mba_model_the_same_penalty(recipe):
    penalties = {key: RECIPES[recipe][key]["training"]["mba"] for key in MBA}
    assert set(penalties.values()) == {penalties["base_mba"]}, penalties


def test_without_a_recipe_every_mba_model_has_the_papers_penalty_alone():
    models = read("base/parameters/models.yml", "models")
    assert {key: models[key]["training"] for key in MBA} == {key: {"mba": 0.01, "l2": 0.0} for key in MBA}


def test_tuning_searches_the_penalty_of_every_mba_model():
    rows = read("base/parameters/tuning.yml", "tuning", "models")
    assert all("training.mba" in rows[key] for key in MBA)
