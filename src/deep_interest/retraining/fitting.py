"""Fitting a challenger: anew on a window of days, or on from the champion on the days that it has not seen."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.layers import Table, embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import occurrence_key
from deep_interest.training.runs import Cell, Data, engine_identity, prepare_device
from deep_interest.training.state import fingerprint
from deep_interest.training.unknown import UnknownRows


@dataclass(frozen=True)
class Parent:
    """The model that a warm start goes on from.

    Attributes:
        id: its version.
        weights: parameters by name.
        optimizer: the optimiser's state.
        schema: its features.
        config: its options.
        training: the options that it was fitted with.
    """

    id: str
    weights: Mapping[str, Tensor]
    optimizer: dict[str, Any]
    schema: FeatureSchema
    config: dict[str, Any]
    training: dict[str, Any]

    def model(self, key: str) -> nn.Module:
        """The model with its parameters."""
        model = build_model(key, model_config(key, self.config), self.schema)
        model.load_state_dict(dict(self.weights))
        return model


@dataclass(frozen=True)
class Fitted:
    """A fitted model.

    Attributes:
        weights: parameters by name, on the CPU.
        optimizer: the optimiser's state, on the CPU.
        schema: the features.
        config, training: options as plain values.
        identity: a hash of everything that decides the result.
        samples: that were trained on, each as often as it was.
        seconds: that took.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    schema: FeatureSchema
    config: dict[str, Any]
    training: dict[str, Any]
    identity: str
    samples: int
    seconds: float

    def as_parent(self) -> Parent:
        """The model to go on from."""
        return Parent(self.identity, self.weights, self.optimizer, self.schema, self.config, self.training)

    def model(self, key: str) -> nn.Module:
        """The model with its parameters."""
        return self.as_parent().model(key)


def fit_challenger(
    cell: Cell,
    data: Data,
    *,
    overrides: dict[str, Any],
    seed: int,
    state_file: Path,
    parent: Parent | None = None,
    teacher_weight: float = 0.0,
) -> Fitted:
    """Fit a model on the training split; a fit that was killed goes on from its saved state.

    With a parent, its parameters and its optimiser's state are taken over and ids that it did not know get rows of their
    own. With a teacher's weight w the labels are ``(1 - w) y + w p``, p the parent's prediction: as cross entropy is linear
    in the label, that is the weighted sum of the losses against the label and against the teacher (Hinton et al. 2015, at
    temperature 1).

    Args:
        cell: the row, its recipe and options.
        data: log, features and samples of the window.
        overrides: training options that go before the row's.
        seed: of the fresh parameters and of the order of the samples.
        state_file: where the running fit is kept.
        parent: the model to go on from; None to begin anew.
        teacher_weight: share of the parent's predictions in the labels.

    Raises:
        InputError: the row cannot go on from the parent.
    """
    device = prepare_device(cell.run)
    config = cell.recipe.model_of(cell.model, cell.options)
    options = cell.recipe.training_of(cell.model, cell.options, {**cell.run.options, **overrides})
    train = SampleSet.build(
        FeatureStore.build(data.log, data.features, device), data.samples, "train", max_len=options.max_len
    )
    validation = SampleSet.build(train.store, data.samples, "validation", max_len=options.max_len)
    torch.manual_seed(seed)
    model = build_model(cell.model, config, data.features.schema)
    if parent is not None:
        _check_can_grow(cell, model)
        model.load_state_dict(grown(parent.weights, model.state_dict(), growing=_growing(model)))
        if teacher_weight:
            train = _taught(train, parent.model(cell.model).to(device), parent.schema, teacher_weight, cell)
    model = model.to(device)
    for table in embedding_tables(model):
        if table.keep_top:
            table.keep_most_frequent(occurrences_of([table], train)[occurrence_key(table)])
    described = (
        cell.dataset, cell.model, config.model_dump_json(), options.model_dump_json(),
        data.features.schema.model_dump_json(), parent.id if parent else None, teacher_weight, device.type, seed,
        *engine_identity(),
    )  # fmt: skip
    identity = fingerprint(*described, data.fingerprint())
    occurrences = occurrences_of(embedding_tables(model), train)
    unknown = UnknownRows.of(model, occurrences, trained_before=_rows_of(parent, cell.model))
    fit = Fit(
        label=f"{cell.name} seed {seed}", model=model, train=train, validation=validation, options=options, seed=seed,
        state_file=state_file, fingerprint=identity,
        occurrences=occurrences, unknown=unknown if options.unknown == "mean" else None,
        evaluation_batch_size=cell.run.evaluation_batch_size, checkpoint_seconds=cell.run.checkpoint_seconds,
        keep_optimizer=True,
    )  # fmt: skip
    if parent is not None and parent.training.get("optimizer") == options.optimizer:
        fit.optimizer.load_state_dict(_grown_moments(parent.optimizer, fit.optimizer.state_dict()))
    progress = fit.run()
    return Fitted(
        weights={name: tensor.cpu().clone() for name, tensor in model.state_dict().items()},
        optimizer=_on_cpu(fit.optimizer.state_dict()), schema=data.features.schema,
        config=config.model_dump(mode="json"), training=options.model_dump(mode="json"), identity=identity,
        samples=progress.samples, seconds=progress.seconds,
    )  # fmt: skip


def held_out_scores(model: nn.Module, schema: FeatureSchema, data: Data, cell: Cell, options: dict[str, Any]):
    """Predicted CTR ``(n,)`` of the held-out day by a model of this or an earlier schema."""
    device = prepare_device(cell.run)
    max_len = TrainingOptions.model_validate(options).max_len
    samples = SampleSet.build(
        FeatureStore.build(data.log, data.features, device), data.samples, "test", max_len=max_len
    )
    return predict(model.to(device), samples.as_known_to(schema), batch_size=cell.run.evaluation_batch_size)


def grown(
    before: Mapping[str, Tensor], fresh: Mapping[str, Tensor], *, growing: Collection[str]
) -> dict[str, Tensor]:
    """The parameters of before; those ``growing`` that have become longer keep the fresh rows at their end.

    Raises:
        InputError: a parameter has another shape, so the model's options have changed.
    """
    return {
        name: _grown(name, before.get(name), tensor, may_grow=name in growing)
        for name, tensor in fresh.items()
    }


def _growing(model: nn.Module) -> set[str]:
    """Names of what grows with the vocabularies: the tables, and what is kept for each of their rows."""
    tables = [name for name, module in model.named_modules() if isinstance(module, Table)]
    return {f"{table}.{name}" for table in tables for name in model.get_submodule(table).state_dict()}


def _grown(name: str, before: Tensor | None, fresh: Tensor, *, may_grow: bool) -> Tensor:
    if before is not None and before.shape == fresh.shape:
        return before
    longer = (
        may_grow
        and before is not None
        and before.dim() == fresh.dim() > 0
        and before.shape[1:] == fresh.shape[1:]
        and len(before) < len(fresh)
    )
    if not longer:
        found = "none" if before is None else tuple(before.shape)
        raise InputError(
            f"{name}: the champion has {found}, the configured model {tuple(fresh.shape)}; a warm start needs the champion's "
            "options: restore them, or set retraining.strategy to full_window"
        )
    return torch.cat([before, fresh[len(before) :].to(before)])


def _rows_of(parent: Parent | None, key: str) -> dict[str, int]:
    """The number of rows of each of the parent's tables, by `occurrence_key`; nothing without a parent."""
    if parent is None:
        return {}
    return {occurrence_key(table): table.num_embeddings for table in embedding_tables(parent.model(key))}


def _grown_moments(before: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """The moments of before, first the network's, then each table's; new rows begin with none."""
    if not fresh:
        return {}
    pairs = zip(before["moments"], fresh["moments"], strict=True)
    moments = [
        tuple(_grown("moment", old, new, may_grow=number > 0) for old, new in zip(olds, news, strict=True))
        for number, (olds, news) in enumerate(pairs)
    ]
    return {"steps": before["steps"], "moments": moments}


def _check_can_grow(cell: Cell, model: nn.Module) -> None:
    if any(not table.groups for table in embedding_tables(model)):
        raise InputError(
            f"{cell.model}: its crossed features are numbered by the vocabularies' sizes, so it cannot go on from a champion; set "
            "retraining.strategy to full_window"
        )


def _taught(
    train: SampleSet, teacher: nn.Module, schema: FeatureSchema, weight: float, cell: Cell
) -> SampleSet:
    taught = predict(teacher, train.as_known_to(schema), batch_size=cell.run.evaluation_batch_size)
    return replace(train, labels=torch.lerp(train.labels, torch.from_numpy(taught).to(train.labels), weight))


def _on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    if not state:
        return {}
    return {
        "steps": list(state["steps"]),
        "moments": [tuple(moment.cpu().clone() for moment in pair) for pair in state["moments"]],
    }
