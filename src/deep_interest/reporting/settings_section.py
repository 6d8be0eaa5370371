"""Settings of a report: versions, and the options in which each model differs from its recipe."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from deep_interest.evaluation.table_notes import join_names
from deep_interest.models.registry import MODELS
from deep_interest.reporting.html_tables import html_table
from deep_interest.training.parameters import Recipe, RowOptions

TUNED_ON_OTHER_DATA = " (found on other samples, features or behaviours than the present ones)"
NOT_RECORDED = "<p>The models were trained by a version that did not record their settings.</p>"

Settings = Mapping[str, Any]


def settings_html(
    settings: Mapping[str, Settings], recipes: Mapping[str, Recipe], names: Mapping[str, str]
) -> str:
    """Return versions, options that differ from the recipe, and tuned values as HTML.

    Args:
        settings: settings by model key, `training.runs.settings_of`; empty for a model whose settings are unknown.
        recipes: the configured recipes by name.
        names: displayed name by model key.
    """
    known = {key: values for key, values in settings.items() if values}
    if not known:
        return NOT_RECORDED
    first = next(iter(known.values()))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    parts = [
        f"<p>Versions: {html.escape(versions)}. Device: {html.escape(first['device'])}. Engine: "
        f"{html.escape(first.get('engine', 'compiled'))}. Recipe: {html.escape(first['recipe'])}.</p>",
        _differences_table(known, recipes, names),
    ]
    tuned = [
        f"{names.get(key, key)}: {_values(values['tuned'])}{TUNED_ON_OTHER_DATA if values.get('tuned_on_other_data') else ''}"
        for key, values in known.items()
        if values["tuned"]
    ]
    if tuned:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in tuned)
        parts.append(f"<p>Options tuned on validation data:</p><ul>{items}</ul>")
    for name in dict.fromkeys(values["recipe"] for values in known.values()):
        if name in recipes:
            options = recipes[name].model_dump(mode="json", include={"training", "model"})
            lines = "".join(
                f"<p>{block}: {html.escape(_values(values))}</p>"
                for block, values in options.items()
                if values
            )
            parts.append(f"<details><summary>Recipe {html.escape(name)}</summary>{lines}</details>")
    parts.append(
        '<p class="soft">Options that neither the recipe nor this table names have their default values. All options of a model are in '
        "<code>settings.json</code> in its folder below <code>data/07_model_output</code>.</p>"
    )
    return "\n".join(parts)


def differences_from_recipe(key: str, settings: Settings, recipe: Recipe) -> dict[str, Any]:
    """Return the options of a trained model that its recipe does not set to the same value, by dotted name.

    Args:
        key: key of the model, used if the settings do not name it.
        settings: settings of the model.
        recipe: its recipe; only the parts for all models are compared.
    """
    common = Recipe(training=recipe.training, model=recipe.model)
    model = settings.get("model", key)
    expected = {
        "training": common.training_of(model, RowOptions({}), {}).model_dump(mode="json"),
        "config": {},
    }
    if model in MODELS:
        expected["config"] = common.model_of(model, RowOptions({})).model_dump(mode="json")
    differences: dict[str, Any] = {}
    for block, prefix in (("config", ""), ("training", "training.")):
        differences |= {
            f"{prefix}{option}": value
            for option, value in settings[block].items()
            if option not in expected[block] or expected[block][option] != value
        }
    if settings.get("seeds") is not None:
        differences["seeds"] = settings["seeds"]
    return differences


def _differences_table(
    known: Mapping[str, Settings], recipes: Mapping[str, Recipe], names: Mapping[str, str]
) -> str:
    by_model = {
        key: differences_from_recipe(key, values, recipes.get(values["recipe"], Recipe()))
        for key, values in known.items()
    }
    shared = _shared(list(by_model.values())) if len(by_model) > 1 else {}
    own = {
        key: {name: value for name, value in options.items() if name not in shared}
        for key, options in by_model.items()
    }
    rows = [["all models", _values(shared)]] if shared else []
    rows += [[names.get(key, key), _values(options)] for key, options in own.items() if options]
    table = html_table(
        ["Model", "Options that differ from the recipe"],
        rows,
        caption="Seeds and options of the trained models",
        css_class="text",
    )
    without = [names.get(key, key) for key, options in own.items() if not options]
    return table + (f"<p>No other options differ: {html.escape(join_names(without))}.</p>" if without else "")


def _shared(differences: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the options that all models have with the same value."""
    first, *others = differences
    return {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
