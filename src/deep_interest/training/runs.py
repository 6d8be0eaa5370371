"""All seeds of one row: fit each, keep what is finished, hand over one checkpoint."""

import json
import logging
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import deep_interest
from deep_interest.errors import InputError
from deep_interest.logs.protocols import SPLITS
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.config import ModelConfig
from deep_interest.models.layers import embedding_tables
from deep_interest.models.registry import build_model, model_config, model_row
from deep_interest.ops.runtime.engine import current_engine, resolve_engine, set_engine
from deep_interest.training.content import Data
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.device import resolve_device
from deep_interest.training.evaluation import predict, validate
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parallel import map_seeds, usable_cores
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters, TrainingOptions
from deep_interest.training.regularizers import occurrence_key
from deep_interest.training.state import fingerprint
from deep_interest.training.unknown import UnknownRows

logger = logging.getLogger(__name__)

Checkpoint = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One row of one dataset's table: which model, fitted how, on what.

    Attributes:
        dataset, model: the keys.
        options: the row's own.
        recipe: training and common model options.
        seeds: one fit each.
        run: device, workspace.
        variant: what the row's name and folder have after the model's key.
    """

    dataset: str
    model: str
    options: RowOptions
    recipe: Recipe
    seeds: tuple[int, ...]
    run: RunParameters
    variant: str = ""

    @property
    def row(self) -> str:
        return f"{self.model}{self.variant}"

    @property
    def name(self) -> str:
        return f"{self.dataset}.{self.row}"


def train_cell(cell: Cell, data: Data) -> tuple[Checkpoint, pd.DataFrame]:
    """Fit every seed of a row, or load those that are finished.

    Returns:
        The checkpoint with every seed's selected parameters, and the learning curves: a row for each seed and
        evaluation.
    """
    device = prepare_device(cell.run)
    seeds = cell.seeds[:1] if model_row(cell.model).closed_form else cell.seeds
    fits = map_seeds(fit_seed, (cell, data), seeds, processes=_processes(cell.run, device))
    curves = [{"seed": seed, **row} for seed, fit in zip(seeds, fits, strict=True) for row in fit.history]
    config, options = _config_and_options(cell)
    checkpoint = {
        "dataset": cell.dataset, "model": cell.model, "variant": cell.variant,
        "config": config.model_dump_json(), "training": options.model_dump_json(),
        "schema": data.features.schema.model_dump_json(), "seeds": list(seeds),
        "data": data.fingerprint(),
        "states": [{name: torch.from_numpy(array) for name, array in fit.state.items()} for fit in fits],
    }  # fmt: skip
    return checkpoint, pd.DataFrame(curves)


@dataclass(frozen=True)
class FittedSeed:
    """One finished fit.

    Attributes:
        state: the selected parameters, by name.
        history: a row for each evaluation.
    """

    state: dict[str, np.ndarray]
    history: list[dict[str, float]]


def settings_of(
    cell: Cell, *, recipe: str, tuned: dict[str, Any], data: str, tuned_on_other_data: bool
) -> dict[str, Any]:
    """What a row was made with, as plain values: options, seeds, tuned values, versions, fingerprint of the data.

    Args:
        cell: the row.
        recipe: name of its recipe.
        tuned: the values of it that a search has found, by dotted name.
        data: fingerprint of the data.
        tuned_on_other_data: the search saw other data than the present ones.
    """
    config, options = _config_and_options(cell)
    versions = {
        "deep_interest": deep_interest.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    return {
        "dataset": cell.dataset, "model": cell.model, "recipe": recipe, "seeds": list(cell.seeds),
        "device": resolve_device(cell.run.device).type, "engine": resolve_engine(cell.run.engine), "tuned": tuned,
        "config": config.model_dump(mode="json"),
        "training": options.model_dump(mode="json"), "versions": versions, "data": data,
        "tuned_on_other_data": tuned_on_other_data,
    }  # fmt: skip


def fit_seed(
    cell: Cell,
    data: Data,
    seed: int,
    *,
    after_evaluation: Callable[[list[dict[str, float]]], None] | None = None,
) -> FittedSeed:
    """Fit one seed of a row, or load it if it is finished.

    Args:
        cell: the row.
        data: the dataset.
        seed: the seed.
        after_evaluation: see `Fit`.
    """
    device = prepare_device(cell.run)
    config, options = _config_and_options(cell)
    schema = data.features.schema
    store = FeatureStore.build(data.log, data.features, device)
    train, validation, test = (
        SampleSet.build(store, data.samples, split, max_len=options.max_len) for split in SPLITS
    )
    torch.manual_seed(seed)
    model = build_model(cell.model, config, schema).to(device)
    for table in embedding_tables(model):
        if table.keep_top:
            table.keep_most_frequent(occurrences_of([table], train)[occurrence_key(table)])
    if model_row(cell.model).closed_form:
        model.fit(train.candidates(), train.labels)
        history = [{"epoch": 0.0, "samples": 0, "seconds": 0.0}]
        if len(validation):
            size = cell.run.evaluation_batch_size
            scores = predict(model, validation, batch_size=size)
            loss, value = validate(scores, validation, selection="gauc")
            history[0] |= {"validation_loss": loss, "validation_gauc": value}
    else:
        described = (
            cell.model,
            config.model_dump_json(),
            options.model_dump_json(),
            schema.model_dump_json(),
            device.type,
            *engine_identity(),
        )
        occurrences = occurrences_of(embedding_tables(model), train)
        history = Fit(
            label=f"{cell.name} seed {seed}", model=model, train=train, validation=validation, options=options, seed=seed,
            state_file=Path(cell.run.workspace) / cell.dataset / cell.row / f"seed_{seed}.pt",
            fingerprint=fingerprint(*described, seed, data.fingerprint()), watched=test if options.watch_test else None,
            occurrences=occurrences, unknown=UnknownRows.of(model, occurrences) if options.unknown == "mean" else None,
            evaluation_batch_size=cell.run.evaluation_batch_size, checkpoint_seconds=cell.run.checkpoint_seconds,
            after_evaluation=after_evaluation,
        ).run().history  # fmt: skip
    return FittedSeed(
        {name: tensor.cpu().numpy().copy() for name, tensor in model.state_dict().items()}, history
    )


def _config_and_options(cell: Cell) -> tuple[ModelConfig, TrainingOptions]:
    recipe = cell.recipe
    return (
        recipe.model_of(cell.model, cell.options),
        recipe.training_of(cell.model, cell.options, cell.run.options),
    )


def _processes(run: RunParameters, device: torch.device) -> int:
    """Fits at once: one a core, unless the run says how many; on a GPU one after the other."""
    if device.type != "cpu":
        return 1
    return run.processes or max(1, usable_cores() // (run.threads or 1))


def predict_cell(
    checkpoint: Checkpoint, run: RunParameters, data: Data, *, split: str = "test"
) -> pd.DataFrame:
    """Score a split with every seed's parameters.

    Returns:
        A row for each sample of the split: ``user``, ``item`` and one column ``seed_<k>`` each; the attribute ``data`` (also in the
        file's metadata) is the fingerprint of the data that they were made from.

    Raises:
        InputError: the checkpoint was trained on other data.
    """
    present = data.fingerprint()
    require_same_data(checkpoint, present)
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
    predictions.attrs["data"] = present
    return predictions


def require_same_data(checkpoint: Checkpoint, present: str) -> None:
    """Refuse a checkpoint that was trained on other data than those that it is used with.

    Args:
        checkpoint: the trained parameters.
        present: fingerprint of the data.

    Raises:
        InputError: it was; the message names the command that trains it again.
    """
    if checkpoint.get("data") != present:
        row = f"{checkpoint['dataset']}.{checkpoint['model']}"
        pipeline = f"tuned.{row}" if checkpoint.get("variant") else row
        raise InputError(
            f"{row}{checkpoint.get('variant', '')}: the checkpoint was trained on other samples, features or behaviours than the "
            f"present ones; train it again by `kedro run --pipelines={pipeline}`"
        )


def restore(checkpoint: Checkpoint, seed: int) -> nn.Module:
    """The model of a checkpoint with one seed's parameters."""
    model = untrained(checkpoint, seed)
    model.load_state_dict(checkpoint["states"][checkpoint["seeds"].index(seed)])
    return model


def untrained(checkpoint: Checkpoint, seed: int) -> nn.Module:
    """The model of a checkpoint with the parameters that a seed draws."""
    key = checkpoint["model"]
    config = model_config(key, json.loads(checkpoint["config"]))
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
    """The run's recipe, or else the dataset's own with the dataset's own training options.

    Raises:
        InputError: no recipe of that name.
    """
    name = run.recipe or default
    if name not in recipes:
        raise InputError(f"training.recipe: {name!r} is unknown; the recipes are {', '.join(recipes)}")
    recipe = recipes[name]
    return recipe if run.recipe else recipe.model_copy(update={"training": recipe.training | training})
