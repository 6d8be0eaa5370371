"""Checks before a run, one log line per node, and plain error messages instead of tracebacks for invalid input."""

import glob
import logging
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from deep_interest.distributed.environment import is_worker
from deep_interest.errors import InputError, did_you_mean
from deep_interest.experiments import (
    LEADERBOARD,
    MODELS,
    TUNABLE,
    abtest_names,
    datasets_of,
    evaluation_names,
)
from deep_interest.io.atomic import clear_unfinished_below
from deep_interest.messages.configuration import Configuration
from deep_interest.messages.report import report_error
from deep_interest.messages.validation import positions_of
from deep_interest.pipeline_registry import selected_names, use_session_blocks
from deep_interest.pipelines.wiring import owner_of
from deep_interest.process import prepare_process

logger = logging.getLogger(__name__)


class RunHooks:
    """Check parameters before a run starts, log each node, and clear the files of killed runs."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._data: Path | None = None  # root of all files that runs write

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Report invalid input in one message from now on, and refuse unknown blocks of parameters."""
        prepare_process()
        configuration = Configuration(context.config_loader)
        sys.excepthook = partial(report_error, configuration=configuration)
        parameters = configuration.parameters()
        context.config_loader["parameters"] = parameters  # so that Kedro does not read the files again
        self._data = Path(context.project_path) / configuration.globals()["data"]
        _check_keys(
            "parameters",
            parameters,
            (
                "abtests",
                "backtest",
                "datasets",
                "evaluation",
                "ingest",
                "leaderboard",
                "models",
                "ope",
                "recipes",
                "retraining",
                "simulation",
                "training",
                "tuning",
                "worth",
            ),
        )
        if not isinstance(parameters["models"], Mapping):
            raise InputError(
                f"models: found {parameters['models']!r}; expected a block of options for each model; the models in a table are "
                "datasets.<dataset>.models"
            )
        _check_keys("models", parameters["models"], MODELS)
        blocks, names = parameters["datasets"], selected_names()
        if names:  # blocks of other datasets may be unfinished
            datasets_of({name: blocks[name] for name in names if name in blocks})
        else:
            hint = "; the block of your own dataset needs a source"
            _check_keys("datasets", blocks, datasets_of(blocks), hint=hint)
        abtest_names(parameters.get("abtests") or {})
        evaluation_names(parameters.get("ope") or {})
        use_session_blocks(parameters)

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Check device, engine, recipe and tuned values before any work is done; clear the files of killed runs."""
        if not is_worker():
            clear_killed_runs(self._data, pipeline)
        if "params:training" not in pipeline.inputs():
            return
        from deep_interest.ops.runtime.engine import set_engine  # noqa: PLC0415
        from deep_interest.training.device import resolve_device  # noqa: PLC0415

        training = catalog.load("params:training")
        resolve_device(training.device)
        set_engine(training.engine)
        if training.recipe is not None and "params:recipes" in pipeline.inputs():
            _check_keys("training.recipe", [training.recipe], catalog.load("params:recipes").root)
        if training.tuned:
            _check_tuned_values(pipeline, catalog, source=training.tuned)
        if "params:tuning" in pipeline.inputs():
            tuning = catalog.load("params:tuning")
            for node in pipeline.nodes:
                if "params:tuning" in node.inputs:
                    if model := owner_of(node).model:
                        tuning.ranges_of(model)
        if "params:leaderboard" in pipeline.inputs():
            prefix = "params:models."
            names = {
                name for node in pipeline.nodes if "params:leaderboard" in node.inputs for name in node.inputs
            }
            models = [name.removeprefix(prefix) for name in sorted(names) if name.startswith(prefix)]
            leaderboard = catalog.load("params:leaderboard")
            leaderboard.check(models)
            if leaderboard.known is not None and "params:recipes" in pipeline.inputs():
                _check_keys("leaderboard.known", [leaderboard.known], catalog.load("params:recipes").root)

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        self._started[node.name] = time.perf_counter()
        logger.info("%s …", node.name)

    @hook_impl
    def after_node_run(self, node: Node) -> None:
        logger.info("%s done in %.1f s", node.name, time.perf_counter() - self._started.pop(node.name))


def clear_killed_runs(data: Path | None, pipeline: Pipeline) -> None:
    """Remove the unfinished files of killed runs from the folders of a pipeline's datasets, but never from raw files.

    Args:
        data: root of all files that runs write; None outside a project.
        pipeline: the pipeline that is about to run.
    """
    if data is None:
        return
    for dataset in {owner_of(node).dataset for node in pipeline.nodes}:
        for folder in data.glob(f"0[2-8]_*/{glob.escape(dataset)}"):
            clear_unfinished_below(folder)


def _check_tuned_values(pipeline: Pipeline, catalog: CatalogProtocol, *, source: bool | str) -> None:
    """Require that tuned values exist before the run: a search within the same run would finish too late."""
    outputs = pipeline.all_outputs()
    searched = [name.removesuffix(".tuned") for name in outputs if name.endswith(".tuned")]
    if both := sorted(experiment for experiment in searched if f"{experiment}.checkpoint" in outputs):
        raise InputError(
            f"training.tuned: this run would both tune and train {', '.join(both)}; tune first with "
            f"`kedro run --pipelines=tune.{both[0]}`, then train in a second run"
        )
    missing = []
    for node in pipeline.nodes:
        dataset, model = owner_of(node)
        if f"{dataset}.tuned" in node.inputs and (model in TUNABLE or source == LEADERBOARD):
            found = catalog.load(f"{dataset}.tuned")
            found = found.get(LEADERBOARD, {}) if source == LEADERBOARD else found
            missing += [] if model in found else [f"{dataset}.{model}"]
    if missing and source == LEADERBOARD:
        raise InputError(
            f"training.tuned: leaderboard has no values for {', '.join(sorted(missing))}; find them with "
            f"`kedro run --pipelines={LEADERBOARD}.{min(missing).split('.', maxsplit=1)[0]}`"
        )
    if missing:
        raise InputError(
            f"training.tuned: no tuned values for {', '.join(sorted(missing))}; find them with `kedro run --pipelines=tune.{min(missing)}`, "
            "or train only the models that have tuned values, each with its own pipeline"
        )


def _check_keys(where: str, keys: Iterable[str], allowed: Iterable[str], *, hint: str = "") -> None:
    unknown = [key for key in keys if key not in allowed]
    if unknown:
        similar = did_you_mean(unknown[0], allowed)
        if not similar and where == "parameters" and (positions := positions_of(unknown[0], unknown[:1])):
            similar = f"; set {' or '.join(positions[:2])}"
        raise InputError(
            f"{where}: {', '.join(unknown)} is unknown; expected {', '.join(allowed)}{hint}{similar}"
        )
