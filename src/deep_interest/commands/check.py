"""`deep-interest check`: read a dataset's raw files as its ingest pipeline does, and describe what is in them."""

import difflib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from kedro.io import CatalogProtocol
from pydantic import BaseModel, ValidationError

from deep_interest.commands.session import open_project
from deep_interest.errors import InputError
from deep_interest.evaluation.evidence import EvaluationParameters, evidence, shortage
from deep_interest.experiments import dataset_names, datasets_of
from deep_interest.logs.contracts import validate
from deep_interest.logs.inspection import inspect_log, report_lines, split_lines, unknown_lines
from deep_interest.logs.suspicions import ticks_per_second
from deep_interest.logs.tables import CanonicalTables
from deep_interest.messages.configuration import Configuration
from deep_interest.messages.validation import validation_message
from deep_interest.pipeline_registry import DATASETS_VARIABLE
from deep_interest.pipelines.ingest import create_pipeline
from deep_interest.pipelines.parameters import DatasetParameters, IngestParameters
from deep_interest.pipelines.samples.nodes import (
    Outputs,
    build_vocabularies,
    samples_from_behaviors,
    samples_from_impressions,
)

Parameters = TypeVar("Parameters", bound=BaseModel)


def check_dataset(
    dataset: str, *, interventions: bool = False, env: str | None = None, folder: Path | None = None
) -> list[str]:
    """Read a dataset, check the canonical tables and make its samples: anything that would fail a run also fails the check.

    Blocks of other datasets are not needed; one line names those with problems.

    Args:
        dataset: key of the dataset.
        interventions: whether to look for leaks by fitting boosted trees to changed data, see `analysis.interventions`.
        env: configuration environment.
        folder: a folder of the project; the working directory if left out.

    Returns:
        Lines for a terminal: counts, days, shares, history lengths, warnings.

    Raises:
        InputError: the dataset does not exist, or its files cannot be used.
    """
    with _validate_only(dataset), open_project(env, folder) as context:
        logging.getLogger(
            samples_from_impressions.__module__
        ).disabled = True  # the check prints these warnings
        configuration = Configuration(context.config_loader)
        blocks = configuration.parameters()["datasets"]
        _require_block(dataset, blocks)
        parameters = validated(f"datasets.{dataset}", DatasetParameters, configuration)
        minimum = validated("evaluation", EvaluationParameters, configuration)
        tables = canonical_tables(dataset, parameters, context.catalog)
    validate(tables)
    made = _make_samples(tables, parameters)
    _, _, samples, summary = made
    assert isinstance(samples, pd.DataFrame)  # not a folder, as on an engine
    has_times = parameters.source is None or parameters.source.has_times
    return [
        f"{dataset}: {parameters.title}",
        "",
        f"samples ({parameters.protocol.name})",
        *split_lines(summary),
        "",
        *unknown_lines(summary),
        "",
        *report_lines(inspect_log(tables, parameters.protocol, parameters.features, has_times=has_times)),
        *test_set_lines(samples[samples["split"] == "test"], minimum),
        *validation_set_lines(samples[samples["split"] == "validation"], minimum),
        *(intervention_lines(tables, parameters, made, has_times=has_times) if interventions else []),
        *other_block_lines({key: block for key, block in blocks.items() if key != dataset}),
    ]


def intervention_lines(
    tables: CanonicalTables, parameters: DatasetParameters, made: Outputs, *, has_times: bool
) -> list[str]:
    """Describe what each intervention does to the GAUC of boosted trees.

    Args:
        tables: canonical tables.
        parameters: parameters of the dataset.
        made: log, features, samples and summary that were made from the tables.
        has_times: whether the times are times, so that they can be shifted.
    """
    from deep_interest.analysis.interventions import intervene  # noqa: PLC0415  # torch
    from deep_interest.training.content import Data  # noqa: PLC0415

    def data_of(outputs: Outputs) -> Data:
        log, features, samples, _ = outputs
        assert not (isinstance(log, Path) or isinstance(samples, Path))  # as those of an engine
        return Data(log, features, samples)

    later = None
    if has_times and tables.impressions is not None and "segment" not in tables.behaviors:
        later = data_of(_make_samples(a_day_later(tables), parameters))
    found = intervene(data_of(made), later=later)
    heading = f"GAUC of boosted trees on the {found.split} set, and the difference to unchanged; 95 % intervals over users"
    lines = ["", f"interventions ({heading})"]
    width = max(len(of.name) for of in found.outcomes)
    for of in found.outcomes:
        line = f"{of.name:{width}}  {of.gauc.difference:.4f} [{of.gauc.low:.4f}, {of.gauc.high:.4f}]"
        if of.loss is not None:
            line += f"  {-of.loss.difference:+.4f} [{-of.loss.high:+.4f}, {-of.loss.low:+.4f}]"
        lines.append(line)
    warnings = [f"warning: {text}" for text in found.warnings]
    return [*lines, *(warnings or ["no warning"])]


def a_day_later(tables: CanonicalTables) -> CanonicalTables:
    """Return the tables with behaviours whose times are a day later."""
    behaviors = tables.behaviors.copy()
    behaviors["time"] += 86_400 * ticks_per_second(behaviors["time"])
    if "day" in behaviors:
        behaviors["day"] += 1
    return replace(tables, behaviors=behaviors)


def validation_set_lines(validation: pd.DataFrame, minimum: EvaluationParameters) -> list[str]:
    """Warn if the validation set, which chooses the epoch by its GAUC, has few users with both classes.

    Args:
        validation: ``user``, ``label``, one row per validation sample; empty if the protocol has no validation set.
        minimum: users that the test set needs.
    """
    users, _ = evidence(validation["user"].to_numpy(), validation["label"].to_numpy())
    if validation.empty or users >= minimum.minimum_users:
        return []
    return [
        f"warning: the validation set has only {users:,} users with both classes, so the choice of the epoch is uncertain"
    ]


def other_block_lines(blocks: Mapping[str, Any]) -> list[str]:
    """Name the datasets whose blocks have problems in one warning.

    Args:
        blocks: configuration under ``datasets``, without the checked dataset.
    """
    problems = {key: problem for key, block in blocks.items() if (problem := _problem(key, block))}
    if not problems:
        return []
    listed = ", ".join(f"{key} ({problem})" for key, problem in problems.items())
    return [
        f"warning: blocks of other datasets have problems; they do not affect this check, but `kedro run` may stop at them: {listed}"
    ]


@contextmanager
def _validate_only(dataset: str) -> Iterator[None]:
    """Let the project validate the block of one dataset only."""
    previous = os.environ.get(DATASETS_VARIABLE)
    os.environ[DATASETS_VARIABLE] = dataset
    try:
        yield
    finally:
        if previous is None:
            del os.environ[DATASETS_VARIABLE]
        else:
            os.environ[DATASETS_VARIABLE] = previous


def _require_block(dataset: str, blocks: Mapping[str, Any]) -> None:
    names = dataset_names(blocks)
    if dataset in names:
        return
    if dataset in blocks:
        raise InputError(
            f"datasets.{dataset}: source is missing; it declares the files of the dataset and their columns (docs/own-data.md)"
        )
    similar = difflib.get_close_matches(dataset, [*names, *map(str, blocks)], n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    raise InputError(f"{dataset} is not a dataset; the datasets are {', '.join(names)}{hint}")


def _problem(dataset: str, block: Any) -> str | None:
    """Return what is wrong with a block in a few words; None if it is valid."""
    if not isinstance(block, Mapping) or dataset not in dataset_names({dataset: block}):
        return "source is missing"
    try:
        datasets_of({dataset: block})
        DatasetParameters.model_validate(block)
    except ValidationError as error:
        first, *others = error.errors()
        return ".".join(map(str, first["loc"])) + (f" and {len(others)} more" if others else "")
    except InputError as error:
        return str(error).split(";")[0]
    return None


def test_set_lines(test: pd.DataFrame, minimum: EvaluationParameters) -> list[str]:
    """Describe how much data GAUC rests on, with a warning if that is too little for intervals.

    Args:
        test: ``user``, ``label``, one row per test sample.
        minimum: users and positives that intervals need.
    """
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    both, positives = evidence(users, labels)
    lines = [f"test set: {both:,} users with both classes, {positives:,} positive samples of theirs"]
    problem = shortage(users, labels, minimum)
    if problem:
        lines.append(f"warning: {problem}, so the table will give no interval, star or verdict")
    return ["", *lines]


def validated(where: str, kind: type[Parameters], configuration: Configuration) -> Parameters:
    """Validate the block of the parameters at a dotted path."""
    block: Any = configuration.loader["parameters"]
    for key in where.split("."):
        block = block[key]
    try:
        return kind.model_validate(block)
    except ValidationError as error:
        message = validation_message(error, where=where, model=kind, locate=configuration.locate)
        raise InputError(message) from error


def canonical_tables(
    dataset: str, parameters: DatasetParameters, catalog: CatalogProtocol
) -> CanonicalTables:
    """Run the dataset's own ingest node, without saving its outputs."""
    spec = datasets_of({dataset: parameters.model_dump()})[dataset]
    (node,) = create_pipeline(dataset, spec).nodes
    given = {f"params:datasets.{dataset}": parameters, "params:ingest": IngestParameters()}  # in memory
    inputs = {name: given[name] if name in given else catalog.load(name) for name in node.inputs}
    return CanonicalTables(
        **{name.removeprefix(f"{dataset}."): table for name, table in node.run(inputs).items()}
    )


def _make_samples(tables: CanonicalTables, parameters: DatasetParameters) -> Outputs:
    """Make log, features, samples and their summary with the dataset's own nodes."""
    ids = build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    inputs = tables.behaviors, tables.items, *ids, tables.left_out, parameters
    if tables.impressions is None:
        return samples_from_behaviors(*inputs)
    return samples_from_impressions(*inputs, tables.users, tables.impressions)
