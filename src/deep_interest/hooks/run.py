"""What happens around a run: one line a node, and plain errors for what a user can mend."""

import glob
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from kedro.config import MissingConfigException
from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol, DatasetError
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node
from kedro.validation import ParameterValidationError

from deep_interest.config import check_files
from deep_interest.errors import InputError
from deep_interest.experiments import MODELS, TUNABLE, datasets_of
from deep_interest.io.atomic import clear_unfinished_below
from deep_interest.pipeline_registry import use_blocks
from deep_interest.process import prepare_process

logger = logging.getLogger(__name__)


class RunHooks:
    """Hooks of every run."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._data: Path | None = None  # root of everything that runs write

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """From here on, what a user can mend is one message; a block of parameters that nobody reads is such a thing."""
        prepare_process()
        sys.excepthook = explain
        parameters = _parameters(context)
        self._data = Path(context.project_path) / context.config_loader["globals"]["data"]
        _check_keys(
            "parameters",
            parameters,
            (
                "backtest",
                "datasets",
                "evaluation",
                "models",
                "recipes",
                "retraining",
                "simulation",
                "training",
                "tuning",
            ),
        )
        _check_keys("models", parameters["models"], MODELS)
        known = datasets_of(parameters["datasets"])
        _check_keys(
            "datasets",
            parameters["datasets"],
            known,
            more="; the block of a dataset of your own needs a source",
        )
        use_blocks(parameters["datasets"])

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Refuse a device or a recipe that does not exist before any work is done; clear what killed runs have left."""
        clear_killed_runs(self._data, pipeline)
        if "params:training" not in pipeline.inputs():
            return
        from deep_interest.training.device import resolve_device  # noqa: PLC0415

        run = catalog.load("params:training")
        resolve_device(run.device)
        if run.recipe is not None and "params:recipes" in pipeline.inputs():
            _check_keys("training.recipe", [run.recipe], catalog.load("params:recipes").root)
        if run.tuned:
            _check_searched_before(pipeline, catalog)
        if "params:tuning" in pipeline.inputs():
            tuning = catalog.load("params:tuning")
            for node in pipeline.nodes:
                if "params:tuning" in node.inputs:
                    tuning.ranges_of(str(node.namespace).split(".", 1)[1])

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        self._started[node.name] = time.perf_counter()
        logger.info("%s …", node.name)

    @hook_impl
    def after_node_run(self, node: Node) -> None:
        logger.info("%s done in %.1f s", node.name, time.perf_counter() - self._started.pop(node.name))


def _parameters(context: KedroContext) -> dict[str, Any]:
    loader = context.config_loader
    check_files(Path(loader.conf_source), [loader.base_env, loader.env or loader.default_run_env])
    try:
        return loader["parameters"]
    except MissingConfigException as error:
        raise InputError(
            f"--env: {loader.env} is no environment; the environments are the folders of {loader.conf_source}"
        ) from error
    except ValueError as error:  # Kedro's word for what two files of one environment say
        raise InputError(
            f"{error}. Give each key in one file; a dataset of your own needs a name of its own."
        ) from error


def clear_killed_runs(data: Path | None, pipeline: Pipeline) -> None:
    """Remove the unfinished files of killed runs from the folders of a pipeline's datasets; raw files are not touched.

    Args:
        data: root of everything that runs write; None outside a project.
        pipeline: the pipeline that is about to run.
    """
    if data is None:
        return
    for dataset in {str(node.namespace).split(".")[0] for node in pipeline.nodes if node.namespace}:
        for folder in data.glob(f"0[2-8]_*/{glob.escape(dataset)}"):
            clear_unfinished_below(folder)


def _check_searched_before(pipeline: Pipeline, catalog: CatalogProtocol) -> None:
    """A row takes what is found when it starts: its search in the same run would come too late, and none is too few."""
    made = pipeline.all_outputs()
    cells = [name.removesuffix(".tuned") for name in made if name.endswith(".tuned")]
    if both := sorted(cell for cell in cells if f"{cell}.checkpoint" in made):
        raise InputError(
            f"training.tuned: {', '.join(both)} is searched and trained in one run; search first, by "
            f"`kedro run --pipelines=tune.{both[0]}`, then train in a run of its own"
        )
    missing = []
    for node in pipeline.nodes:
        dataset, _, model = str(node.namespace).partition(".")
        if f"{dataset}.tuned" in node.inputs and model in TUNABLE:
            missing += [] if model in catalog.load(f"{dataset}.tuned") else [f"{dataset}.{model}"]
    if missing:
        raise InputError(
            f"training.tuned: no tuned values for {', '.join(sorted(missing))}; find some by `kedro run --pipelines=tune.{min(missing)}`, "
            "or train the rows that have some alone, each by its own pipeline"
        )


def _check_keys(where: str, found: Iterable[str], known: Iterable[str], *, more: str = "") -> None:
    unknown = [key for key in found if key not in known]
    if unknown:
        raise InputError(f"{where}: {', '.join(unknown)} is not known; expected {', '.join(known)}{more}")


def explain(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Report an uncaught error: one message where the user can mend it, Python's traceback otherwise."""
    root = error
    while isinstance(root, DatasetError) and root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, InputError | DatasetError | ParameterValidationError):
        sys.stderr.write(f"error: {root}\n")
    else:
        sys.__excepthook__(kind, error, traceback)
