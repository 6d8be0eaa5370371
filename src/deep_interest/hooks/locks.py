"""Locks of a run: two runs never write the same files, and no run reads files that another run is writing.

=======================  =====================================================  ==========================================
resource                 held exclusively by                                    shared by
=======================  =====================================================  ==========================================
``<dataset>``            every run that writes its tables, samples or           runs that only train models;
                         reports                                                a search until it has read
                                                                                its samples
``<dataset>.days``       ``simulate_days``, ``backtest``                        ``retrain.<dataset>.*``, ``score.<dataset>.*``
``<dataset>.<model>.…``  ``fit``: a run that only trains models;
                         ``tuning``: ``tune.<dataset>.<model>``;
                         ``scores``: ``score.<dataset>.<model>``
``simulated.backtest``   ``backtest``
``abtests.<test>``       ``abtest.<test>``
``ope.<evaluation>``     ``ope.<evaluation>``
=======================  =====================================================  ==========================================

The registry of a model has its own lock, see `hooks.retraining`.
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
from deep_interest.pipelines.wiring import owner_of

_FIT = ".fit"  # end of the name of what a run that trains a model writes
_WAIT = "Wait until it ends, or run in another environment (`--env=NAME`), which has its own data."
_WAIT_FOR_SEARCH = (
    "Wait until it ends, or start it again with a higher tuning.workers: workers share one study."
)


class LockHooks:
    """Acquire the locks of a run before anything is written, and release them when it ends.

    Args:
        locks: locks of the current run, including that of the registry.
    """

    def __init__(self, locks: ExitStack) -> None:
        self._locks = locks
        self._data = Path()
        self._held: dict[str, ResourceLock] = {}
        self._searches: dict[str, set[str]] = {}

    @hook_impl(trylast=True)
    def after_context_created(self, context: KedroContext) -> None:
        """Store the data folder of the environment, after its configuration has been checked."""
        self._data = Path(context.project_path) / context.config_loader["globals"]["data"]

    @hook_impl(wrapper=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline
    ) -> Generator[None, Any, Any]:
        """Acquire all locks after the checks of the other hooks; an error releases them."""
        self._locks.close()  # Ctrl-C in a notebook ends a run without a hook
        try:
            results = yield
            self._acquire(pipeline, _command(run_params))
        except BaseException:
            self._locks.close()
            raise
        return results

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        """Release a dataset once the last search that reads it has loaded its samples: a search may take hours."""
        for dataset, searches in self._searches.items():
            if node.name in searches:
                searches.remove(node.name)
                if not searches:
                    self._held[dataset].release()

    @hook_impl(wrapper=True)
    def after_pipeline_run(self) -> Generator[None, Any, Any]:
        """Release all locks after the other hooks."""
        try:
            return (yield)
        finally:
            self._locks.close()

    @hook_impl(wrapper=True)
    def on_pipeline_error(self) -> Generator[None, Any, Any]:
        """Release all locks after the other hooks."""
        try:
            return (yield)
        finally:
            self._locks.close()

    def _acquire(self, pipeline: Pipeline, command: str) -> None:
        self._held, self._searches = {}, searches_of(pipeline)
        for resource, shared in sorted(resources_of(pipeline).items()):
            lock = self._held[resource] = ResourceLock(lock_path(self._data, resource))
            advice = _WAIT_FOR_SEARCH if resource.endswith(".tuning") else _WAIT
            try:
                lock.acquire(command, shared=shared, advice=advice)
            except LockedError as error:
                if retrained_models(pipeline):  # a scheduler only sees the exit code
                    exit_with("busy", str(error))
                raise
            self._locks.callback(lock.release)


def resources_of(pipeline: Pipeline) -> dict[str, bool]:
    """Return the resources that the nodes of a pipeline write or read, and whether other runs may share them."""
    shared: dict[str, bool] = {}
    for node in pipeline.nodes:
        for resource in _written(node):
            shared[resource] = False
        for resource in _read(node):
            shared.setdefault(resource, True)
    return {
        resource: share
        for resource, share in shared.items()
        if not (resource.endswith(_FIT) and shared[resource.split(".")[0]] is False)
    }


def searches_of(pipeline: Pipeline) -> dict[str, set[str]]:
    """Return, by dataset, the search nodes after whose start the lock of the dataset is not needed any more.

    Datasets that other nodes read or write later, or at the same time, are left out.
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
        and not any(dataset in _read(node) and node.name not in names for node in pipeline.nodes)
    }


def _written(node: Node) -> set[str]:
    """Return the resources that a node writes."""
    dataset, model = owner_of(node)
    if "retrain" in node.tags:  # protected by the registry's lock
        return set()
    if f"{dataset}.days" in node.outputs:
        return {f"{dataset}.days"}
    if "abtest" in node.tags or "ope" in node.tags:
        return {".".join(node.outputs[0].split(".")[:2])}
    if replay := node.tags & {"backtest", "delayed_clicks"}:
        return {f"{dataset}.{tag}" for tag in replay}
    for tag, entry in (("score", "scores"), ("parity", "parity"), ("tune", "tuning")):
        if tag in node.tags and model:
            return {f"{dataset}.{model}.{entry}"}
    return {f"{dataset}.{model}{_FIT}"} if model else {dataset}


def _read(node: Node) -> set[str]:
    """Return the resources that a node reads but does not write."""
    dataset = _dataset(node)
    return ({f"{dataset}.days"} if f"{dataset}.days" in node.inputs else set()) | (
        {dataset} if _is_search(node) or any(name.endswith(_FIT) for name in _written(node)) else set()
    )


def _is_search(node: Node) -> bool:
    return "tune" in node.tags and f"{_dataset(node)}.tuning_samples" in node.inputs


def _dataset(node: Node) -> str:
    return owner_of(node).dataset


def _command(run_params: dict[str, Any]) -> str:
    """Return the command of the run, as far as it determines which files it writes."""
    env, names = run_params.get("env"), run_params.get("pipeline_names")
    parts = [f"--env={env}" if env else "", f"--pipelines={','.join(names)}" if names else ""]
    return " ".join(["kedro run", *filter(None, parts)])
