"""Which locks a run needs: two runs never write the same files, and none reads files that another one is writing.

=======================  =====================================================  ==========================================
resource                 held exclusively by                                    shared by
=======================  =====================================================  ==========================================
``<dataset>``            every run that writes its tables, samples, models or
                         reports; a search until it has read its samples
``<dataset>.days``       ``simulate_days``, ``backtest``                        ``retrain.<dataset>.*``, ``score.<dataset>.*``
``<dataset>.<model>.…``  ``tuning``: ``tune.<dataset>.<model>``;
                         ``scores``: ``score.<dataset>.<model>``
``simulated.backtest``   ``backtest``
=======================  =====================================================  ==========================================

A model's registry has a lock of its own, see `hooks.retraining`.
"""

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from deep_interest.hooks.retraining import exit_with, retrained_models
from deep_interest.io.locks import LockedError, ResourceLock, lock_path

_WAIT = "Wait until it ends, or run in another environment (`--env=NAME`), whose data are separate."
_WAIT_FOR_SEARCH = "Wait until it ends, or raise tuning.workers there: its workers share one study."


class LockHooks:
    """Hooks of every run: take its locks before anything is written, and release them when it ends.

    Args:
        locks: everything that this process holds for the present run, the registry's lock included.
    """

    def __init__(self, locks: ExitStack) -> None:
        self._locks = locks
        self._data = Path()
        self._held: dict[str, ResourceLock] = {}
        self._searches: dict[str, set[str]] = {}

    @hook_impl(trylast=True)
    def after_context_created(self, context: KedroContext) -> None:
        """Note where the environment keeps its data, once its configuration has been checked."""
        self._data = Path(context.project_path) / context.config_loader["globals"]["data"]

    @hook_impl(wrapper=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline
    ) -> Generator[None, Any, Any]:
        """Take every lock after the checks of the other hooks; whatever stops the run releases all."""
        self._locks.close()  # Ctrl-C in a notebook ends a run without a hook
        try:
            results = yield
            self._take(pipeline, _command(run_params))
        except BaseException:
            self._locks.close()
            raise
        return results

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        """Release a dataset when the last search that reads it has its samples: a search may take hours."""
        for dataset, searches in self._searches.items():
            if node.name in searches:
                searches.remove(node.name)
                if not searches:
                    self._held[dataset].release()

    @hook_impl(wrapper=True)
    def after_pipeline_run(self) -> Generator[None, Any, Any]:
        """Release all locks when the other hooks are done."""
        try:
            return (yield)
        finally:
            self._locks.close()

    @hook_impl(wrapper=True)
    def on_pipeline_error(self) -> Generator[None, Any, Any]:
        """Release all locks when the other hooks are done."""
        try:
            return (yield)
        finally:
            self._locks.close()

    def _take(self, pipeline: Pipeline, command: str) -> None:
        self._held, self._searches = {}, searches_of(pipeline)
        for resource, shared in sorted(resources_of(pipeline).items()):
            lock = self._held[resource] = ResourceLock(lock_path(self._data, resource))
            advice = _WAIT_FOR_SEARCH if resource.endswith(".tuning") else _WAIT
            try:
                lock.acquire(command, shared=shared, advice=advice)
            except LockedError as error:
                if retrained_models(pipeline):  # a scheduler sees the exit status alone
                    exit_with("busy", str(error))
                raise
            self._locks.callback(lock.release)


def resources_of(pipeline: Pipeline) -> dict[str, bool]:
    """The resources that a pipeline's nodes write or read, and whether it may share them with other runs."""
    shared: dict[str, bool] = {}
    for node in pipeline.nodes:
        for resource in _written(node):
            shared[resource] = False
        for resource in _read(node):
            shared.setdefault(resource, True)
    return shared


def searches_of(pipeline: Pipeline) -> dict[str, set[str]]:
    """The searches after whose start a dataset's lock is not needed any more, by dataset.

    A dataset that other nodes read or write later, or at the same time, is left out.
    """
    searches: dict[str, set[str]] = {}
    for node in pipeline.nodes:
        if _is_search(node):
            searches.setdefault(_dataset(node), set()).add(node.name)
    return {
        dataset: names
        for dataset, names in searches.items()
        if {node.name for node in pipeline.nodes if dataset in _written(node)}
        <= {node.name for node in pipeline.to_nodes(*names).nodes}
    }


def _written(node: Node) -> set[str]:
    """The resources that a node writes."""
    dataset = _dataset(node)
    if "retrain" in node.tags:  # under the registry's lock
        return set()
    if f"{dataset}.days" in node.outputs:
        return {f"{dataset}.days"}
    if "backtest" in node.tags:
        return {f"{dataset}.backtest"}
    if "score" in node.tags:
        return {f"{node.namespace}.scores"}
    if "tune" in node.tags and node.namespace != dataset:
        return {f"{node.namespace}.tuning"}
    return {dataset}


def _read(node: Node) -> set[str]:
    """The resources that a node reads and does not write; a node that writes a dataset also reads it alone."""
    dataset = _dataset(node)
    return ({f"{dataset}.days"} if f"{dataset}.days" in node.inputs else set()) | (
        {dataset} if _is_search(node) else set()
    )


def _is_search(node: Node) -> bool:
    return "tune" in node.tags and f"{_dataset(node)}.tuning_samples" in node.inputs


def _dataset(node: Node) -> str:
    return str(node.namespace).split(".", maxsplit=1)[0]


def _command(run_params: dict[str, Any]) -> str:
    """A run as its user started it, as far as it says what is written where."""
    env, names = run_params.get("env"), run_params.get("pipeline_names")
    parts = [f"--env={env}" if env else "", f"--pipelines={','.join(names)}" if names else ""]
    return " ".join(["kedro run", *filter(None, parts)])
