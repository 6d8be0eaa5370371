"""Train a challenger: from scratch on a window of days, or from the champion on the days that it has not seen."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.embeddings import Table, embedding_tables
from deep_interest.models.nade import NADE
from deep_interest.models.registry import build_model
from deep_interest.models.wide_deep import CrossProduct
from deep_interest.retraining.fitted import FittedModel, Parent
from deep_interest.retraining.kept_rows import keep_rows
from deep_interest.retraining.rows import NO_ROWS, Rows, with_rows
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict
from deep_interest.training.loop import Fit
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import TrainingOptions
from deep_interest.training.regularizers import occurrence_key
from deep_interest.training.runs import Data, Experiment, engine_identity, prepare_device
from deep_interest.training.state import fingerprint
from deep_interest.training.unknown import UnknownRows


def fit_challenger(
    experiment: Experiment,
    data: Data,
    *,
    overrides: dict[str, Any],
    seed: int,
    state_file: Path,
    parent: Parent | None = None,
    teacher_weight: float = 0.0,
    rows: Rows = NO_ROWS,
) -> FittedModel:
    """Fit a model on the training split; a killed fit resumes from its saved state.

    With a parent, training starts from its parameters and optimiser state, and new ids get new rows. With a teacher weight w
    the labels are ``(1 - w) y + w p``, where p is the parent's prediction: cross entropy is linear in the label, so this is the
    weighted sum of the losses with regard to label and teacher (Hinton et al. 2015, at temperature 1).

    Args:
        experiment: model, recipe and options.
        data: log, features and samples of the window, in the codes of the run.
        overrides: training options that override those of the model.
        seed: seed of new parameters and of the order of the samples.
        state_file: file of the saved state.
        parent: model to continue from; None to train from scratch.
        teacher_weight: weight of the parent's predictions in the labels.
        rows: rows of the model's tables, where not each code of the run has one; a row that the parent lacks starts with new parameters.

    Raises:
        InputError: the model cannot continue from the parent.
    """
    device = prepare_device(experiment.run)
    config = experiment.recipe.model_of(experiment.model, experiment.options)
    options = experiment.recipe.training_of(
        experiment.model, experiment.options, {**experiment.run.options, **overrides}
    )
    in_run, data = data, with_rows(data, rows)
    train = _training_samples(data, device, options)
    validation = SampleSet.build(train.store, data.samples, "validation", max_len=options.max_len)
    torch.manual_seed(seed)
    model = build_model(experiment.model, config, data.features.schema)
    if parent is not None:
        _check_can_grow(experiment, model, parent.schema)
        if teacher_weight:
            seen = _training_samples(in_run, device, options) if rows else train
            train = _with_teacher(train, seen, parent, teacher_weight, experiment)
        parent = keep_rows(parent, rows, experiment.model)
        model.load_state_dict(
            extend_parameters(parent.weights, model.state_dict(), extensible=_extensible(model))
        )
    model = model.to(device)
    for table in embedding_tables(model):
        if table.keep_top:
            table.keep_most_frequent(occurrences_of([table], train)[occurrence_key(table)])
    described = (
        experiment.dataset, experiment.model, config.model_dump_json(), options.model_dump_json(),
        data.features.schema.model_dump_json(), parent.id if parent else None, teacher_weight, device.type, seed,
        *engine_identity(),
    )  # fmt: skip
    identity = fingerprint(*described, data.fingerprint())
    occurrences = occurrences_of(embedding_tables(model), train)
    unknown = UnknownRows.of(model, occurrences, trained_before=_rows_of(parent, experiment.model))
    fit = Fit(
        label=f"{experiment.name}, seed {seed}", model=model, train=train, validation=validation, options=options, seed=seed,
        state_file=state_file, fingerprint=identity,
        occurrences=occurrences, unknown=unknown if options.unknown == "mean" else None,
        evaluation_batch_size=experiment.run.evaluation_batch_size, checkpoint_seconds=experiment.run.checkpoint_seconds,
        keep_optimizer=True,
    )  # fmt: skip
    if parent is not None and parent.training.get("optimizer") == options.optimizer:
        fit.optimizer.load_state_dict(_extend_moments(parent.optimizer, fit.optimizer.state_dict()))
    progress = fit.run()
    return FittedModel(
        weights={name: tensor.cpu().clone() for name, tensor in model.state_dict().items()},
        optimizer=_on_cpu(fit.optimizer.state_dict()), schema=data.features.schema,
        config=config.model_dump(mode="json"), training=options.model_dump(mode="json"), identity=identity,
        samples=progress.samples, seconds=progress.seconds,
    )  # fmt: skip


def held_out_scores(
    model: nn.Module, schema: FeatureSchema, data: Data, experiment: Experiment, options: dict[str, Any]
):
    """Predict the CTR of the held-out day, ``(n,)``, with a model of this or an earlier schema."""
    device = prepare_device(experiment.run)
    max_len = TrainingOptions.model_validate(options).max_len
    samples = SampleSet.build(
        FeatureStore.build(data.log, data.features, device), data.samples, "test", max_len=max_len
    )
    return predict(
        model.to(device),
        samples.with_vocabularies_of(schema),
        batch_size=experiment.run.evaluation_batch_size,
    )


def extend_parameters(
    old: Mapping[str, Tensor], new: Mapping[str, Tensor], *, extensible: Collection[str]
) -> dict[str, Tensor]:
    """Return the old parameters; ``extensible`` ones that have become longer get the additional rows of the new ones.

    Raises:
        InputError: a parameter has another shape because the options of the model have changed.
    """
    return {
        name: _extend(name, old.get(name), tensor, extensible=name in extensible)
        for name, tensor in new.items()
    }


def _extensible(model: nn.Module) -> set[str]:
    """Return the names of the tensors that grow with the vocabularies: embedding tables and their buffers."""
    tables = [name for name, module in model.named_modules() if isinstance(module, Table)]
    return {f"{table}.{name}" for table in tables for name in model.get_submodule(table).state_dict()}


def _extend(name: str, old: Tensor | None, new: Tensor, *, extensible: bool) -> Tensor:
    if old is not None and old.shape == new.shape:
        return old
    if not (
        extensible
        and old is not None
        and old.dim() == new.dim() > 0
        and old.shape[1:] == new.shape[1:]
        and len(old) < len(new)
    ):
        shape = "none" if old is None else tuple(old.shape)
        raise InputError(
            f"{name}: the champion has {shape}, the configured model {tuple(new.shape)}; a warm start needs the options of "
            "the champion: restore them, or set retraining.strategy to full_window"
        )
    return torch.cat([old, new[len(old) :].to(old)])


def _rows_of(parent: Parent | None, key: str) -> dict[str, int]:
    """Return the number of rows of each table of the parent, by `occurrence_key`; empty without a parent."""
    if parent is None:
        return {}
    return {occurrence_key(table): table.num_embeddings for table in embedding_tables(parent.model(key))}


def _extend_moments(before: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """Extend the saved moments, first of the network, then of each table; the moments of new rows are 0."""
    if not fresh:
        return {}
    pairs = zip(before["moments"], fresh["moments"], strict=True)
    moments = [
        tuple(_extend("moment", old, new, extensible=number > 0) for old, new in zip(olds, news, strict=True))
        for number, (olds, news) in enumerate(pairs)
    ]
    return {"steps": before["steps"], "moments": moments}


def _check_can_grow(experiment: Experiment, model: nn.Module, before: FeatureSchema) -> None:
    sizes = before.tables
    for module in model.modules():
        if isinstance(module, NADE) and (
            grown := [name for name in module.pairs if module.sizes[name] != sizes.get(name)]
        ):
            raise InputError(
                f"{experiment.model}: the row of a pair of an item and {grown[0]} depends on the number of values of {grown[0]}, which was "
                f"{sizes.get(grown[0], 0)} and is {module.sizes[grown[0]]}, so it cannot continue from a champion; set "
                "retraining.strategy to full_window"
            )
    if any(isinstance(module, CrossProduct) for module in model.modules()):
        raise InputError(
            f"{experiment.model}: the codes of its crossed features depend on the sizes of the vocabularies, so it cannot continue "
            "from a champion; set retraining.strategy to full_window"
        )


def _training_samples(data: Data, device: torch.device, options: TrainingOptions) -> SampleSet:
    store = FeatureStore.build(data.log, data.features, device)
    return SampleSet.build(store, data.samples, "train", max_len=options.max_len)


def _with_teacher(
    train: SampleSet, seen: SampleSet, teacher: Parent, weight: float, experiment: Experiment
) -> SampleSet:
    """Mix the teacher's predictions into the labels; ``seen`` has the same samples in the codes of the run."""
    predictions = predict(
        teacher.model(experiment.model).to(train.labels.device),
        seen.with_vocabularies_of(teacher.schema),
        batch_size=experiment.run.evaluation_batch_size,
    )
    return replace(
        train, labels=torch.lerp(train.labels, torch.from_numpy(predictions).to(train.labels), weight)
    )


def _on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    if not state:
        return {}
    return {
        "steps": list(state["steps"]),
        "moments": [tuple(moment.cpu().clone() for moment in pair) for pair in state["moments"]],
    }
