"""`deep-interest plan`: memory, disk and time of each stage, before it is run."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kedro.io import CatalogConfigResolver, DatasetError

from deep_interest.commands.check import canonical_tables, validated
from deep_interest.commands.session import load_entries, open_project, read_configuration, require_dataset
from deep_interest.errors import InputError, did_you_mean
from deep_interest.experiments import MODELS, RETRAINABLE, DatasetSpec
from deep_interest.messages.configuration import Configuration
from deep_interest.messages.report import plain_message
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.planning.counts import Counts, samples_of
from deep_interest.planning.page import plan_lines
from deep_interest.planning.parquet_counts import count_parquet
from deep_interest.planning.plan import make_plan
from deep_interest.planning.stages import Machine, Workload
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.sources.tables.counts import TableCounts, count_tables
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.training.runs import choose_recipe

NAMES = ("users", "items", "behaviors", "samples")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip


def print_plan(
    dataset: str, model: str, *, counts: Mapping[str, int | None], values: Sequence[str], memory: str | None, cores: int | None,
    days: int | None, candidates: int, as_json: bool, env: str | None = None,
) -> Iterator[str]:  # fmt: skip
    """Plan a dataset and yield the lines to print.

    Args:
        dataset: key of the dataset.
        model: key of the model to train.
        counts: counts by name (`NAMES`), which replace those of the files; None if left out.
        values: ``NAME=N``, the number of values of a feature.
        memory: memory of the machine, such as ``64GB``; that of this machine if left out.
        cores: number of its cores; those of this machine if left out.
        days: days of the samples.
        candidates: candidates for each user in batch scoring.
        as_json: whether to print one JSON object.
        env: configuration environment.

    Raises:
        InputError: unknown dataset or model, invalid counts, or the raw files cannot be counted.
    """
    configuration = read_configuration(env)
    spec = require_dataset(configuration, dataset)
    _require_model(model)
    parameters = validated(f"datasets.{dataset}", DatasetParameters, configuration)
    given = {name: number for name, number in counts.items() if number is not None}
    found = _counts(dataset, spec, parameters, configuration, given, env)
    found = replace(found, values=found.values | _values(values, parameters), days=days or found.days)
    machine = Machine(bytes_of(memory) if memory else _memory(), cores or os.cpu_count() or 1)
    workload = _workload(dataset, model, spec, parameters, configuration, found, candidates)
    plan = make_plan(workload, machine)
    if as_json:
        yield json.dumps(plan.as_dict(), indent=1)
    else:
        yield from plan_lines(plan)


def bytes_of(text: str) -> int:
    """Read an amount of memory, such as ``64GB`` or ``1.5TB``.

    Raises:
        InputError: it is not a positive number with a known unit.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in _UNITS or float(match[1]) <= 0:
        raise InputError(f"--memory: found {text!r}, expected an amount such as 64GB or 1.5TB")
    return round(float(match[1]) * _UNITS[match[2].upper()])


def _require_model(model: str) -> None:
    if model not in MODELS:
        raise InputError(
            f"--model: {model} is not a model; the models are {', '.join(MODELS)}{did_you_mean(model, MODELS)}"
        )
    if MODELS[model].closed_form:
        raise InputError(
            f"--model: {model} is fitted in one step and is not planned; use one of {', '.join(RETRAINABLE)}"
        )


def _counts(
    dataset: str, spec: DatasetSpec, parameters: DatasetParameters, configuration: Configuration, given: dict[str, int], env: str | None,
) -> Counts:  # fmt: skip
    """Return the counts that were given, and those of the files for what was not."""
    needed = ["users", "items", "behaviors", *(["samples"] if spec.impressions else [])]
    if all(name in given for name in needed):
        samples = samples_of(parameters.protocol, users=given["users"], behaviors=given["behaviors"])
        return _with({"samples": samples} | given)
    try:
        files = _count_files(dataset, parameters, configuration, env)
    except (InputError, DatasetError) as error:
        missing = ", ".join(f"--{name}" for name in needed if name not in given)
        raise InputError(f"{plain_message(error) or error} Without the files, give {missing}.") from error
    counted = {"users": files.users, "items": files.items, "behaviors": files.behaviors} | given
    samples = samples_of(
        parameters.protocol,
        users=counted["users"],
        behaviors=counted["behaviors"],
        impressions=files.impressions,
    )
    return replace(
        _with({"samples": samples} | counted), values=files.values, raw_bytes=files.raw_bytes or None
    )


def _with(counts: dict[str, int]) -> Counts:
    return Counts(
        users=counts["users"],
        items=counts["items"],
        behaviors=counts["behaviors"],
        samples=counts["samples"],
    )


def _count_files(
    dataset: str, parameters: DatasetParameters, configuration: Configuration, env: str | None
) -> TableCounts:
    """Count the canonical tables if they exist, otherwise the raw files."""
    folder = _path(configuration, f"{dataset}.behaviors")
    features = parameters.features
    if folder is not None and folder.exists():
        return count_parquet(folder.parent, features)
    if parameters.source is not None:
        source = parameters.source
        root = load_entries(configuration, [f"{dataset}.raw_log"])[f"{dataset}.raw_log"]
        return count_tables(root / (dataset if source.folder is None else source.folder), source, features)
    with open_project(env) as context:
        tables = canonical_tables(dataset, parameters, context.catalog)
    values = {name: int(tables.items[name].nunique()) for name in features.item if name in tables.items}
    behaviors = tables.behaviors
    return TableCounts(
        int(behaviors["user"].nunique()),
        len(tables.items),
        len(behaviors),
        impressions=0,
        values=values,
        raw_bytes=0,
    )


def _path(configuration: Configuration, entry: str) -> Path | None:
    """Return the local path of an entry of the catalog; None if it is not a local file."""
    resolver = CatalogConfigResolver(
        configuration.catalog(), configuration.credentials(), default_runtime_patterns={}
    )
    path = str(dict(resolver.resolve_pattern(entry)).get("filepath", ""))
    return None if not path or "://" in path else configuration.conf.parent / path


def _values(values: Sequence[str], parameters: DatasetParameters) -> dict[str, int]:
    """Read the numbers of values of features."""
    columns = parameters.features
    names = columns.names
    found = {}
    for text in values:
        name, _, number = text.partition("=")
        if name not in names or not number.isdecimal() or int(number) < 1:
            raise InputError(
                f"--values: found {text!r}, expected FEATURE=N with a number of at least 1; the features are {', '.join(names)}"
            )
        found[name] = int(number)
    return found


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _workload(
    dataset: str, model: str, spec: DatasetSpec, parameters: DatasetParameters, configuration: Configuration, counts: Counts,
    candidates: int,
) -> Workload:  # fmt: skip
    """Return what is planned, with the options that a run would have."""
    recipes = validated("recipes", Recipes, configuration).root
    run = validated("training", RunParameters, configuration)
    recipe = choose_recipe(recipes, run, default=parameters.recipe, training=parameters.training)
    options = RowOptions(_options_of(model, configuration))
    retraining = (
        validated("retraining", RetrainingParameters, configuration)
        if spec.retrainable and model in RETRAINABLE
        else None
    )
    return Workload(
        dataset, model, counts, parameters.features, recipe.model_of(model, options),
        recipe.training_of(model, options, run.options), len(run.seeds or parameters.seeds), retraining, candidates,
    )  # fmt: skip


def _options_of(model: str, configuration: Configuration) -> dict[str, Any]:
    return dict(configuration.loader["parameters"]["models"].get(model) or {})
