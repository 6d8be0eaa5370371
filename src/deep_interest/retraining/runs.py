"""The steps of a retraining run, according to its plan."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import deep_interest
from deep_interest.evaluation.version_calibration import Calibration
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.config import Precision
from deep_interest.models.packed_tables import pack_tables
from deep_interest.models.registry import build_model
from deep_interest.retraining.baseline import popularity_scores
from deep_interest.retraining.calibration import (
    calibration_segments,
    check_can_calibrate,
    fit_calibration,
    share_kept,
)
from deep_interest.retraining.fitted import FittedModel, Parent
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.retraining.gate import Check, Verdict, judge
from deep_interest.retraining.groups import by_history_length
from deep_interest.retraining.kept_rows import rows_summary
from deep_interest.retraining.parameters import (
    CalibrationParameters,
    DelayedClicksParameters,
    GateParameters,
    RetrainingParameters,
)
from deep_interest.retraining.plan import Plan
from deep_interest.retraining.precision_loss import check_can_reduce, precision_loss, with_precision_loss
from deep_interest.retraining.rows import NO_ROWS, Rows, vocabularies_with, with_rows
from deep_interest.retraining.window import Window
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import Version, VersionArtifacts
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.training.runs import Experiment, choose_recipe
from deep_interest.training.state import code_hash

_FLOAT32, _UNCALIBRATED, _NO_CALIBRATION = Precision(), CalibrationParameters(), Calibration()
_NO_DELAYS = DelayedClicksParameters()


def retraining_experiment(
    dataset: str,
    model: str,
    options: RowOptions,
    settings: Any,
    recipes: Recipes,
    run: RunParameters,
    retraining: RetrainingParameters,
) -> Experiment:
    """Build the experiment that is retrained.

    Args:
        dataset, model: keys of dataset and model.
        options: options of the model.
        settings: parameters of the dataset, with its ``recipe`` and ``training``.
        recipes: all recipes.
        run: device, workspace, recipe.
        retraining: parameters of retraining, with the seed of the fits.
    """
    recipe = choose_recipe(recipes.root, run, default=settings.recipe, training=settings.training)
    return Experiment(dataset, model, options, recipe, (retraining.seed,), run)


def fit_by_plan(
    experiment: Experiment, data: Window, plan: Plan, registry: Registry, retraining: RetrainingParameters, rows: Rows = NO_ROWS,
) -> FittedModel:  # fmt: skip
    """Fit the challenger with the strategy of the plan, and with a row for the ids that have one; a killed fit resumes.

    Raises:
        InputError: the model cannot score in the configured precision or be calibrated, or cannot continue from the parent.
    """
    check_can_calibrate(retraining.calibration, data)
    config = experiment.recipe.model_of(experiment.model, experiment.options)
    check_can_reduce(
        lambda: build_model(experiment.model, config, data.features.schema), retraining.precision
    )
    warm = plan.strategy != "full_window"
    return fit_challenger(
        experiment, data, overrides=overrides_of(experiment, retraining, warm=warm), seed=retraining.seed,
        state_file=Path(experiment.run.workspace) / experiment.dataset / experiment.model / "retraining.pt",
        parent=parent_of(registry.load(plan.parent)) if warm and plan.parent else None,
        teacher_weight=retraining.teacher_weight if plan.strategy == "warm_start_with_distillation" else 0.0, rows=rows,
    )  # fmt: skip


def overrides_of(experiment: Experiment, retraining: RetrainingParameters, *, warm: bool) -> dict[str, Any]:
    """Return the training options that override those of the model, in a full window or a warm start."""
    if not warm:
        return dict(retraining.training)
    options = experiment.recipe.training_of(experiment.model, experiment.options, experiment.run.options)
    return {"learning_rate": options.learning_rate * retraining.warm_rate, **retraining.warm_training}


def parent_of(version: Version) -> Parent:
    """Return a version as the parent of a warm start."""
    manifest = version.manifest
    return Parent(
        version.id, version.weights(), version.optimizer(), version.schema, manifest["config"], manifest["training"]
    )  # fmt: skip


def judge_by_plan(
    experiment: Experiment,
    fitted: FittedModel,
    data: Window,
    plan: Plan,
    registry: Registry,
    gate: GateParameters,
    *,
    precision: Precision = _FLOAT32,
    rows: Rows = NO_ROWS,
    calibration: CalibrationParameters = _UNCALIBRATED,
    minimum_arrived: float = 0.0,
) -> tuple[Verdict, Calibration]:
    """Calibrate the challenger, and compare it with the champion, or a first version with popularity, on the held-out day.

    Both are judged by what they serve, in their precision and calibrated, and each treats ids without a row in its own tables as unknown;
    ``precision``, ``rows`` and ``calibration`` are those of the challenger; at least ``minimum_arrived`` of the clicks on the judged
    impressions must have arrived.
    """
    is_held_out = data.samples["split"] == "test"
    held_out = data.samples[is_held_out]
    champion: np.ndarray | None = None
    if plan.parent is not None:
        version = registry.load(plan.parent)
        champion = version.calibration()(
            held_out_scores(version.model(), version.schema, data, experiment, version.manifest["training"])
        )
    users, labels, own = held_out["user"], held_out["label"], with_rows(data, rows)
    model_ctr, loss = precision_loss(
        users, labels, lambda model: held_out_scores(model, fitted.schema, own, experiment, fitted.training),
        lambda: fitted.model(experiment.model), precision, gate,
    )  # fmt: skip
    found = fit_calibration(
        users, labels, model_ctr, calibration, kept=share_kept(calibration, data), seed=experiment.seeds[0]
    )
    challenger, weights = found.calibration(model_ctr), found.weights
    popularity = popularity_scores(data.samples[~is_held_out], held_out)
    verdict = judge(users, labels, challenger, champion, gate, popularity=popularity, weights=weights)
    lengths = held_out["history_end"] - (held_out["history_begin"] if "history_begin" in held_out else 0)
    verdict = replace(
        verdict, calibration=found.facts, delayed_clicks=data.delayed_clicks,
        groups=by_history_length(users, labels, challenger, lengths, weights=weights),
        segments=calibration_segments(users, labels, model_ctr, challenger, lengths, weights),
    )  # fmt: skip
    checks = (*found.checks, *arrival_checks(data.delayed_clicks, minimum_arrived))
    return with_precision_loss(verdict, loss, gate).with_checks(checks), found.calibration


def arrival_checks(delayed_clicks: dict[str, Any] | None, minimum_arrived: float) -> tuple[Check, ...]:
    """Return the condition on the labels of the held-out day; none if the log does not say when clicks happened."""
    if delayed_clicks is None:
        return ()
    share = delayed_clicks["judged_arrived"]
    name = "share of the judged clicks that have arrived, estimated"
    return (Check(name, share, f"at least {minimum_arrived:g}", share >= minimum_arrived),)


def version_name(
    plan: Plan,
    fitted: FittedModel,
    gate: GateParameters,
    *,
    precision: Precision = _FLOAT32,
    calibration: CalibrationParameters = _UNCALIBRATED,
    delayed_clicks: DelayedClicksParameters = _NO_DELAYS,
) -> str:
    """Return the newest training day with a hash of everything that determines the version."""
    identity = json.dumps(
        [
            fitted.identity,
            plan.strategy,
            plan.parent,
            plan.trained,
            gate.model_dump(mode="json"),
            precision.model_dump(),
            calibration.model_dump(),
            *([] if delayed_clicks == _NO_DELAYS else [delayed_clicks.model_dump()]),
        ]
    )
    return f"{plan.trained[-1]}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def artifacts_of(
    dataset: str,
    model: str,
    plan: Plan,
    fitted: FittedModel,
    verdict: Verdict,
    vocabularies: FieldVocabularies,
    *,
    rows: Rows = NO_ROWS,
    calibration: Calibration = _NO_CALIBRATION,
) -> VersionArtifacts:
    """Return the challenger as a version for the registry; ``vocabularies`` are in the codes of the run."""
    found = verdict.precision
    precision = _FLOAT32 if found is None else Precision(tables=found.tables, attention=found.attention)
    manifest = {
        "dataset": dataset, "model": model, "strategy": plan.strategy, "parent": plan.parent,
        "days": {"trained": list(plan.trained), "fitted_on": list(plan.train), "held_out": plan.held_out},
        "config": fitted.config, "training": fitted.training, "schema": fitted.schema.model_dump(mode="json"),
        "samples": fitted.samples, "parameters": sum(parameter.numel() for parameter in fitted.model(model).parameters()), "precision": precision.model_dump(), "calibration": verdict.calibration, "verdict": verdict.as_dict(),
        "code": {"deep_interest": deep_interest.__version__, "sources": code_hash(), "torch": torch.__version__},
    }  # fmt: skip
    if rows:
        manifest["rows"] = rows_summary(fitted, model, rows)
    return VersionArtifacts(
        manifest,
        fitted.weights,
        fitted.optimizer,
        vocabularies_with(vocabularies, rows),
        pack_tables(fitted.model(model), precision.tables),
        calibration if calibration.changes else None,
    )
