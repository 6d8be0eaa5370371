"""Options that differ from the recipe: each once, and none that the recipe sets."""

import re

from deep_interest.reporting.settings_section import differences_from_recipe, settings_html
from deep_interest.training.parameters import Recipe, RowOptions

RECIPE = Recipe(training={"epochs": 3, "learning_rate": 0.01}, model={"embedding_dim": 16, "hidden": (8, 4)})


def settings(key, *, training=None, options=None, seeds=(1, 2), recipe="ours"):
    """Settings of a model as training records them."""
    row = RowOptions((options or {}) | {"training": training or {}})
    return {
        "model": key, "recipe": recipe, "seeds": list(seeds), "device": "cpu", "tuned": {}, "versions": {"torch": "2"},
        "config": RECIPE.model_of(key, row).model_dump(mode="json"),
        "training": RECIPE.training_of(key, row, {}).model_dump(mode="json"),
    }  # fmt: skip


def text(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_only_options_that_the_recipe_does_not_set_are_differences():
    found = differences_from_recipe(
        "din", settings("din", training={"mba": 10.0}, options={"normalize": "softmax"}), RECIPE
    )
    assert found == {"normalize": "softmax", "training.mba": 10.0, "seeds": [1, 2]}


def test_a_model_that_is_trained_by_the_recipe_alone_has_no_differences():
    assert differences_from_recipe("lr", settings("lr"), RECIPE) == {"seeds": [1, 2]}


def test_variants_are_compared_as_their_model():
    tuned = settings("din", training={"mba": 10.0})
    assert differences_from_recipe("din_tuned", tuned, RECIPE).keys() == {"training.mba", "seeds"}


def test_differences_that_all_models_share_are_listed_once():
    known = {
        "din": settings("din", training={"epochs": 1}),
        "dien": settings("dien", training={"epochs": 1}, options={"aux_weight": 0.3}),
    }
    shown = text(settings_html(known, {"ours": RECIPE}, {"din": "DIN", "dien": "DIEN <i>"}))
    assert "all models training.epochs = 1, seeds = [1, 2]" in shown
    assert shown.count("training.epochs") == 1
    assert "DIEN &lt;i&gt; aux_weight = 0.3" in shown
    assert "No other options differ: DIN." in shown
    assert (
        "Recipe ours training: epochs = 3, learning_rate = 0.01 model: embedding_dim = 16, hidden = [8, 4]"
        in shown
    )


def test_a_recipe_that_is_not_configured_any_more_is_compared_with_the_defaults():
    page = text(settings_html({"din": settings("din", recipe="old")}, {"ours": RECIPE}, {"din": "DIN"}))
    assert "embedding_dim = 16" in page and "training.epochs = 3" in page


def test_models_without_recorded_settings_are_omitted():
    assert "did not record" in settings_html({"din": {}}, {}, {})
