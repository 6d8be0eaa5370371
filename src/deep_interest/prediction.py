"""Predict from Python with trained models: the implementation of `deep_interest.load`."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from kedro.framework.context import KedroContext
from kedro.io import DatasetError

from deep_interest.commands.session import open_project, require_dataset, split_experiment
from deep_interest.errors import InputError
from deep_interest.experiments import RETRAINABLE
from deep_interest.logs.encoding import code_column
from deep_interest.logs.impressions import days_and_splits
from deep_interest.logs.samples import TRAIN
from deep_interest.logs.schema import FeatureSchema
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.days import list_days, read_days
from deep_interest.retraining.scoring import encode_current_log
from deep_interest.retraining.window import require_one_sequence
from deep_interest.serving.encoder import Encoder
from deep_interest.serving.predictor import Predictor
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import Version
from deep_interest.training.data import FeatureStore
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.runs import Data, require_same_data, restore

_CPU = torch.device("cpu")


def load(
    experiment: str,
    *,
    version: str | None = None,
    seed: int | None = None,
    env: str | None = None,
    folder: str | Path | None = None,
) -> Predictor:
    """Load a trained model; see `deep_interest.load`."""
    dataset, model = split_experiment(experiment)
    if version is not None and seed is not None:
        raise InputError("seed: a version has one model; leave seed out, or leave version out")
    with _quiet(), open_project(env, None if folder is None else Path(folder)) as context:
        require_dataset(context, dataset)
        block = context.config_loader["parameters"]["datasets"][dataset]
        settings = DatasetParameters.model_validate(block)
        if version is None:
            return _trained(context, dataset, model, settings, seed)
        return _version(context, dataset, model, settings, version)


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave logging and exception hook as they were: opening a project sets both for a run and logs every dataset."""
    hook, kedro, nodes = sys.excepthook, logging.getLogger("kedro"), logging.getLogger("kedro.pipeline.node")
    level, disabled = kedro.level, nodes.disabled
    kedro.setLevel(logging.WARNING)
    try:
        yield
    finally:
        sys.excepthook, nodes.disabled = hook, disabled
        kedro.setLevel(level)


def _trained(
    context: KedroContext, dataset: str, model: str, settings: DatasetParameters, seed: int | None
) -> Predictor:
    """Load a model that ``kedro run`` has trained, with the dataset's samples."""
    name = f"{dataset}.{model}"
    try:
        checkpoint, log, features, samples, user_ids, item_ids = (
            context.catalog.load(entry)
            for entry in (
                f"{name}.checkpoint", *(f"{dataset}.{kind}" for kind in ("log", "features", "samples", "user_ids", "item_ids")),
            )
        )  # fmt: skip
        impressions = context.catalog.load(f"{dataset}.impressions") if features.schema.context else None
    except DatasetError as error:
        raise InputError(f"{name}: {error.__cause__ or error}") from error
    if "segment" in samples:
        raise InputError(
            f"{name}: the source gives the history of each row, so the log has no behaviours by user; predictions need "
            "source.behaviors"
        )
    require_one_sequence(settings.features)
    require_same_data(checkpoint, Data(log, features, samples).fingerprint())
    seeds = checkpoint["seeds"]
    if seed is not None and seed not in seeds:
        raise InputError(
            f"seed: {name} was not trained with {seed}; its seeds are {', '.join(map(str, seeds))}"
        )
    chosen = seeds[0] if seed is None else seed
    vocabularies = FieldVocabularies(frozen=True)
    if impressions is not None:
        vocabularies = _context_vocabularies(impressions, settings, features.schema, name)
    return Predictor(
        name, restore(checkpoint, chosen), FeatureStore.build(log, features, _CPU),
        Encoder(_vocabulary(user_ids), _vocabulary(item_ids), vocabularies, settings.features),
        max_len=TrainingOptions.model_validate_json(checkpoint["training"]).max_len, seed=chosen,
    )  # fmt: skip


def _context_vocabularies(
    impressions: pd.DataFrame, settings: DatasetParameters, schema: FeatureSchema, name: str
) -> FieldVocabularies:
    """Return the vocabularies of the context features as the samples have them: those of the training days."""
    used, _, split = days_and_splits(impressions, settings.protocol)
    vocabularies = FieldVocabularies()
    for field in schema.context:
        coded = code_column(vocabularies, field.name, used[field.name], settings.features, split == TRAIN)
        if coded.field != field:
            raise InputError(
                f"{name}: the impressions or their features have changed since the samples were made ({field.name} has "
                f"{coded.field.size} values, the model {field.size}); train again with `kedro run --pipelines={name}`"
            )
    return FieldVocabularies(vocabularies.fields, frozen=True)


def _version(
    context: KedroContext, dataset: str, model: str, settings: DatasetParameters, version: str
) -> Predictor:
    """Load a version of the registry, with the current days, as batch scoring reads them."""
    split_experiment(f"{dataset}.{model}", RETRAINABLE)
    history_days = context.config_loader["parameters"]["retraining"].get("history_days")
    try:
        registry: Registry = context.catalog.load(f"{dataset}.{model}.registry")
        chosen = _find_version(registry, version, f"{dataset}.{model}")
        days: Path = context.catalog.load(f"{dataset}.days")
    except DatasetError as error:
        raise InputError(str(error.__cause__ or error)) from error
    first_day = None if history_days is None else -history_days - 1
    tables = read_days(days, list_days(days)[first_day:], reading_of(settings))
    columns = settings.features
    current = encode_current_log(
        tables, columns, chosen, {name: tables.shown[name].head(1) for name in columns.context}
    )
    return Predictor(
        f"{dataset}.{model}, version {chosen.id}", chosen.model(),
        FeatureStore.build(current.behaviors, current.features, _CPU),
        Encoder(current.log.users, current.log.items, current.vocabularies, columns),
        max_len=TrainingOptions.model_validate(chosen.manifest["training"]).max_len, version=chosen.id,
        calibration=chosen.calibration(),
    )  # fmt: skip


def _find_version(registry: Registry, version: str, experiment: str) -> Version:
    if version != "champion":
        return registry.load(version)
    champion = registry.champion()
    if champion is None:
        raise InputError(
            f"{experiment}: no version serves yet; run `kedro run --pipelines=retrain.{experiment}`"
        )
    return champion


def _vocabulary(ids: Any) -> Vocabulary:
    return Vocabulary(pd.Index(ids["id"]))
