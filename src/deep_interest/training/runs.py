"""Train all seeds of an experiment: finished fits are kept, and the results are collected in one checkpoint."""

import json
import logging
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import deep_interest
from deep_interest.errors import InputError
from deep_interest.logs.samples import SPLITS
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.embeddings import embedding_tables
from deep_interest.models.registry import build_model, find_model, stored_config
from deep_interest.ops.runtime.engine import current_engine, resolve_engine, set_engine
from deep_interest.training.content import Data
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.device import resolve_device
from deep_interest.training.distillation import booster_of, with_booster_logits
from deep_interest.training.evaluation import predict, validate
from deep_interest.training.experiment import Experiment
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parallel import map_seeds, usable_cores
from deep_interest.training.parameters import Recipe, RunParameters, TrainingOptions
from deep_interest.training.regularizers import occurrence_key
from deep_interest.training.state import fingerprint
from deep_interest.training.unknown import UnknownRows

logger = logging.getLogger(__name__)

Checkpoint = dict[str, Any]


def train_experiment(experiment: Experiment, data: Data) -> tuple[Checkpoint, pd.DataFrame]:
    """Fit all seeds of an experiment; finished fits are loaded.

    Returns:
        The checkpoint with the selected parameters of each seed, and the learning curves: one row per seed and evaluation.
    """
    device = prepare_device(experiment.run)
    seeds = experiment.seeds[:1] if find_model(experiment.model).closed_form else experiment.seeds
    fits = map_seeds(fit_seed, (experiment, data), seeds, processes=_processes(experiment.run, device))
    return checkpoint_of(experiment, data.features.schema, data.fingerprint(), seeds, fits)


def checkpoint_of(
    experiment: Experiment,
    schema: FeatureSchema,
    data: str,
    seeds: Sequence[int],
    fits: Sequence["FittedSeed"],
) -> tuple[Checkpoint, pd.DataFrame]:
    """Return the checkpoint of some fits, and their learning curves.

    Args:
        experiment: the experiment.
        schema: feature groups.
        data: fingerprint of the data.
        seeds: seed of each fit.
        fits: finished fits.
    """
    curves = [{"seed": seed, **row} for seed, fit in zip(seeds, fits, strict=True) for row in fit.history]
    config, options = experiment.config_and_options()
    checkpoint = {
        "dataset": experiment.dataset, "model": experiment.model, "variant": experiment.variant,
        "config": config.model_dump_json(), "training": options.model_dump_json(),
        "schema": schema.model_dump_json(), "seeds": list(seeds), "data": data,
        "states": [{name: torch.from_numpy(array) for name, array in fit.state.items()} for fit in fits],
    }  # fmt: skip
    return checkpoint, pd.DataFrame(curves)


@dataclass(frozen=True)
class FittedSeed:
    """A finished fit.

    Attributes:
        state: selected parameters, by name.
        history: one row per evaluation.
    """

    state: dict[str, np.ndarray]
    history: list[dict[str, float]]


def settings_of(
    experiment: Experiment, *, recipe: str, tuned: dict[str, Any], data: str, tuned_on_other_data: bool
) -> dict[str, Any]:
    """Describe an experiment as plain values: options, seeds, tuned values, versions, fingerprint of the data.

    Args:
        experiment: the experiment.
        recipe: name of its recipe.
        tuned: values that a search has found, by dotted name.
        data: fingerprint of the data.
        tuned_on_other_data: whether the search used other data.
    """
    config, options = experiment.config_and_options()
    versions = {
        "deep_interest": deep_interest.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    return {
        "dataset": experiment.dataset, "model": experiment.model, "recipe": recipe, "seeds": list(experiment.seeds),
        "device": resolve_device(experiment.run.device).type, "engine": resolve_engine(experiment.run.engine), "tuned": tuned,
        "config": config.model_dump(mode="json"),
        "training": options.model_dump(mode="json"), "versions": versions, "data": data,
        "tuned_on_other_data": tuned_on_other_data, "searched": bool(tuned) or experiment.model in experiment.recipe.searched,
    }  # fmt: skip


def fit_seed(
    experiment: Experiment,
    data: Data,
    seed: int,
    *,
    after_evaluation: Callable[[list[dict[str, float]]], None] | None = None,
) -> FittedSeed:
    """Fit one seed of an experiment, or load the fit if it is finished.

    Args:
        experiment: the experiment.
        data: samples, features and log.
        seed: seed of the fit.
        after_evaluation: see `Fit`.
    """
    device = prepare_device(experiment.run)
    config, options = experiment.config_and_options()
    schema = data.features.schema
    store = FeatureStore.build(data.log, data.features, device)
    train, validation, test = (
        SampleSet.build(store, data.samples, split, max_len=options.max_len) for split in SPLITS
    )
    booster = booster_of(experiment)
    if booster is not None:
        train = with_booster_logits(train, booster, fit_seed(booster, data, seed).state)
    torch.manual_seed(seed)
    model = build_model(experiment.model, config, schema).to(device)
    for table in embedding_tables(model):
        if table.keep_top:
            table.keep_most_frequent(occurrences_of([table], train)[occurrence_key(table)])
    if find_model(experiment.model).closed_form:
        model.fit(train)
        history = [{"epoch": 0.0, "samples": 0, "seconds": 0.0}]
        if len(validation):
            size = experiment.run.evaluation_batch_size
            scores = predict(model, validation, batch_size=size)
            loss, value = validate(scores, validation, selection="gauc")
            history[0] |= {"validation_loss": loss, "validation_gauc": value}
    else:
        occurrences = occurrences_of(embedding_tables(model), train)
        history = Fit(
            label=f"{experiment.name}, seed {seed}", model=model, train=train, validation=validation, options=options, seed=seed,
            state_file=Path(experiment.run.workspace) / experiment.dataset / experiment.model_variant / f"seed_{seed}.pt",
            fingerprint=fingerprint(*described(experiment, schema, device, booster), seed, data.fingerprint()), watched=test if options.watch_test else None,
            occurrences=occurrences, unknown=UnknownRows.of(model, occurrences) if options.unknown == "mean" else None,
            evaluation_batch_size=experiment.run.evaluation_batch_size, checkpoint_seconds=experiment.run.checkpoint_seconds,
            after_evaluation=after_evaluation,
        ).run().history  # fmt: skip
    return FittedSeed(
        {name: tensor.cpu().numpy().copy() for name, tensor in model.state_dict().items()}, history
    )


def described(
    experiment: Experiment, schema: FeatureSchema, device: torch.device, booster: Experiment | None
) -> tuple[str, ...]:
    """Return what determines the result of a fit besides seed and data."""
    return (
        *experiment.described(),
        schema.model_dump_json(),
        device.type,
        *engine_identity(),
        *(() if booster is None else booster.described()),
    )


def _processes(run: RunParameters, device: torch.device) -> int:
    """Return the number of parallel fits: as configured or one per core; one on a GPU."""
    if device.type != "cpu":
        return 1
    return run.processes or max(1, usable_cores() // (run.threads or 1))


def predict_experiment(
    checkpoint: Checkpoint, run: RunParameters, data: Data, *, split: str = "test"
) -> pd.DataFrame:
    """Score a split with the parameters of each seed.

    Returns:
        One row per sample of the split: ``user``, ``item`` and a column ``seed_<k>`` per seed; the attribute ``data`` (also in
        the metadata of the file) is the fingerprint of the data.

    Raises:
        InputError: the checkpoint was trained on other data.
    """
    fingerprint_of_data = data.fingerprint()
    require_same_data(checkpoint, fingerprint_of_data)
    device = prepare_device(run)
    options = TrainingOptions.model_validate_json(checkpoint["training"])
    chosen = SampleSet.build(
        FeatureStore.build(data.log, data.features, device), data.samples, split, max_len=options.max_len
    )
    scores = {
        f"seed_{seed}": predict(
            restore(checkpoint, seed).to(device), chosen, batch_size=run.evaluation_batch_size
        )
        for seed in checkpoint["seeds"]
    }
    rows = data.samples.loc[data.samples["split"] == split, ["user", "item"]]
    predictions = rows.reset_index(drop=True).assign(**scores)
    predictions.attrs["data"] = fingerprint_of_data
    return predictions


def require_same_data(checkpoint: Checkpoint, present: str) -> None:
    """Check that a checkpoint was trained on the data that it is used with.

    Args:
        checkpoint: trained parameters.
        present: fingerprint of the data.

    Raises:
        InputError: it was trained on other data; the message names the command that trains it again.
    """
    if checkpoint.get("data") != present:
        name = f"{checkpoint['dataset']}.{checkpoint['model']}"
        pipelines = {"_tuned": f"tuned.{name}", "_leaderboard": f"leaderboard.{checkpoint['dataset']}"}
        pipeline = pipelines.get(checkpoint.get("variant", ""), name)
        raise InputError(
            f"{name}{checkpoint.get('variant', '')}: the samples, features or behaviours have changed since the checkpoint was "
            f"trained; train it again with `kedro run --pipelines={pipeline}`"
        )


def restore(checkpoint: Checkpoint, seed: int) -> nn.Module:
    """Build the model of a checkpoint with the parameters of a seed."""
    model = untrained(checkpoint, seed)
    model.load_state_dict(checkpoint["states"][checkpoint["seeds"].index(seed)])
    return model


def untrained(checkpoint: Checkpoint, seed: int) -> nn.Module:
    """Build the model of a checkpoint with the initial parameters of a seed."""
    key = checkpoint["model"]
    config = stored_config(key, json.loads(checkpoint["config"]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model(key, config, FeatureSchema.model_validate_json(checkpoint["schema"]))


def prepare_device(run: RunParameters) -> torch.device:
    """Resolve the device, and set the engine and the CPU threads of this process."""
    set_engine(run.engine)
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    return resolve_device(run.device)


def engine_identity() -> tuple[str, ...]:
    """What the engine adds to the fingerprint of a fit: nothing for the compiled one, whose fits from before stay valid."""
    engine = current_engine()
    return () if engine == "compiled" else (engine,)


def choose_recipe(
    recipes: dict[str, Recipe], run: RunParameters, *, default: str, training: dict[str, Any]
) -> Recipe:
    """Return the recipe of the run, or else that of the dataset with the dataset's training options.

    Raises:
        InputError: there is no recipe with that name.
    """
    name = run.recipe or default
    if name not in recipes:
        raise InputError(f"training.recipe: {name!r} is unknown; the recipes are {', '.join(recipes)}")
    recipe = recipes[name]
    return recipe if run.recipe else recipe.model_copy(update={"training": recipe.training | training})
