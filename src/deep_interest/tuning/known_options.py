"""Models of a leaderboard that keep the options of an earlier one: they are trained with its recipe and get no trials."""

from collections.abc import Mapping, Sequence
from typing import Any

from deep_interest.errors import InputError
from deep_interest.training.parameters import Recipe, RecipeModel


def known_options(
    recipes: Mapping[str, Recipe], known: str | None, recipe: Recipe, models: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the options that an earlier leaderboard has found, by model key and dotted name such as ``training.l2``.

    Args:
        recipes: all recipes by name.
        known: name of the recipe of the earlier leaderboard; there is none if None.
        recipe: recipe of this run, in which both leaderboards train models that were not searched.
        models: keys of the models of the table.

    Returns:
        The options of the models that the earlier leaderboard has searched, without those that the recipe of this run sets alike, unless
        it sets all of them; the other models are to be searched.

    Raises:
        InputError: the recipe is unknown, has searched none of the models, or has other common options than that of this run.
    """
    if known is None:
        return {}
    if known not in recipes:
        raise InputError(f"leaderboard.known: {known!r} is unknown; the recipes are {', '.join(recipes)}")
    earlier = recipes[known]
    for block in ("training", "model"):
        theirs, ours = getattr(earlier, block), getattr(recipe, block)
        if differing := sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)):
            raise InputError(
                f"leaderboard.known: the recipe {known} has other {block} options than the recipe of this run: "
                f"{', '.join(differing)}; use the recipe and the options with which it was searched (`training.recipe`)"
            )
    values = {model: _found(earlier, recipe, model) for model in models if model in earlier.searched}
    if not values:
        raise InputError(
            f"leaderboard.known: the recipe {known} has options of {', '.join(earlier.searched) or 'no model'}, but the models are "
            f"{', '.join(models)}"
        )
    return values


def known_result(
    values: Mapping[str, Any], *, dataset: str, model: str, recipe: str, data: str, known: str
) -> dict[str, Any]:
    """Return the result of a model whose options are known, in the form of `leaderboard.result_of`, without trials.

    Args:
        values: the options by dotted name.
        dataset: key of the dataset.
        model: key of the model.
        recipe: name of the recipe of the run.
        data: fingerprint of the data.
        known: recipe that the options are from.
    """
    return {
        "dataset": dataset, "model": model, "recipe": recipe, "data": data, "known": known, "values": dict(values),
        "validation_gauc": None, "first_gauc": None, "finished": None, "pruned": None, "processor_seconds": None,
        "ranges": {}, "importance": {},
    }  # fmt: skip


def _found(earlier: Recipe, recipe: Recipe, model: str) -> dict[str, Any]:
    """Return the options of a model by dotted name that another recipe does not set alike, or all if there are none."""
    found, before = (_dotted(each.models.get(model, RecipeModel())) for each in (earlier, recipe))
    return {
        name: value for name, value in found.items() if name not in before or before[name] != value
    } or found


def _dotted(options: RecipeModel) -> dict[str, Any]:
    blocks = options.model_dump()
    return {f"{block}.{name}": value for block, values in blocks.items() for name, value in values.items()}
