"""Retraining under a scheduler: one run at a time, an exit code for each outcome, a summary."""

import logging
import sys
from contextlib import ExitStack
from typing import Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol, DatasetError, SharedMemoryDataCatalog
from kedro.pipeline import Pipeline

from deep_interest.errors import InputError
from deep_interest.pipelines.retrain import TAG
from deep_interest.pipelines.wiring import owner_of

logger = logging.getLogger(__name__)


class RetrainingHooks:
    """Lock the registry, and report the outcome, of the pipelines ``retrain.<dataset>.<model>``.

    Args:
        locks: locks of the current run; `LockHooks` releases them at the end.
    """

    def __init__(self, locks: ExitStack) -> None:
        self._locks = locks

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Lock the registry; exit if another run holds it or if there is no new day.

        Raises:
            InputError: the runner is Kedro's ``ParallelRunner``: the steps hand their data on in memory.
        """
        if isinstance(catalog, SharedMemoryDataCatalog) and retrained_models(pipeline):
            raise InputError(
                "--runner: ParallelRunner cannot run retrain pipelines, because their steps share data in memory; leave "
                "--runner out"
            )
        from deep_interest.retraining.days import list_days  # noqa: PLC0415
        from deep_interest.retraining.plan import NothingNewError, new_days  # noqa: PLC0415
        from deep_interest.serving.mlflow_alias import require_mlflow  # noqa: PLC0415
        from deep_interest.serving.registry import BusyError  # noqa: PLC0415

        for dataset, model in retrained_models(pipeline):
            registry = catalog.load(f"{dataset}.{model}.registry")
            if catalog.load("params:retraining").mlflow_uri:
                require_mlflow()
            try:
                self._locks.enter_context(registry.locked())
            except BusyError as error:
                exit_with("busy", str(error))
            try:
                new_days(list_days(catalog.load(f"{dataset}.days")), registry.state())
            except NothingNewError as error:
                self._end_early(dataset, model, catalog, "nothing_new", str(error))

    @hook_impl
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Report the outcome; a version that the gate refused has its own exit code."""
        from deep_interest.serving.mlflow_alias import sync_to_mlflow  # noqa: PLC0415

        for dataset, model in retrained_models(pipeline):
            summary = catalog.load(f"{dataset}.{model}.run_summary")
            if uri := catalog.load("params:retraining").mlflow_uri:
                sync_to_mlflow(catalog.load(f"{dataset}.{model}.registry"), f"{dataset}.{model}", uri)
            self._notify(catalog, summary)
            if summary["exit_code"]:
                sys.exit(summary["exit_code"])

    @hook_impl
    def on_pipeline_error(self, error: Exception, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Write the summary of a run that failed, because of bad data or another error."""
        from deep_interest.retraining.checks import BadDayError  # noqa: PLC0415
        from deep_interest.retraining.plan import NothingNewError  # noqa: PLC0415

        outcomes = {BadDayError: "bad_data", NothingNewError: "nothing_new"}
        for dataset, model in retrained_models(pipeline):
            root: BaseException = error
            while isinstance(root, DatasetError) and root.__cause__ is not None:
                root = root.__cause__
            outcome = next((name for kind, name in outcomes.items() if isinstance(root, kind)), "failed")
            self._end_early(dataset, model, catalog, outcome, str(root), exit_now=outcome != "failed")

    def _end_early(
        self, dataset: str, model: str, catalog: CatalogProtocol, outcome: Any, message: str, *, exit_now: bool = True
    ) -> None:  # fmt: skip
        from deep_interest.retraining.summary import early_end, summary_page  # noqa: PLC0415

        summary = early_end(dataset, model, outcome, message)
        try:
            catalog.save(f"{dataset}.{model}.run_summary", summary)
            catalog.save(f"{dataset}.{model}.run_page", summary_page(summary))
        except DatasetError as error:  # such as a full disk; the original error matters more
            logger.warning("the run's summary could not be written: %s", error)
        self._notify(catalog, summary)
        if exit_now:
            exit_with(outcome, message)

    def _notify(self, catalog: CatalogProtocol, summary: dict[str, Any]) -> None:
        from deep_interest.retraining.summary import notify  # noqa: PLC0415

        retraining = catalog.load("params:retraining")
        if retraining.webhook:
            notify(retraining.webhook, summary, seconds=retraining.webhook_seconds)


def retrained_models(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return the experiments that a pipeline retrains, as pairs of dataset and model."""
    owners = {owner_of(node) for node in pipeline.only_nodes_with_tags(TAG).nodes}
    return sorted((owner.dataset, owner.model) for owner in owners if owner.model)


def exit_with(outcome: Any, message: str) -> None:
    """Exit with the exit code of an outcome, and write the reason to standard error."""
    from deep_interest.retraining.summary import EXIT_CODES  # noqa: PLC0415

    sys.stderr.write(f"{outcome.replace('_', ' ')}: {message}\n")
    sys.exit(EXIT_CODES[outcome])
