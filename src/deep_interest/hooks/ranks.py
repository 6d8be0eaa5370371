"""Runs on several processes that ``torchrun`` has started: rank 0 runs the pipeline, the others take part in training and prediction."""

import logging
import os
from typing import Any

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from deep_interest.datasets.unwritten import Unwritten
from deep_interest.distributed.environment import Ranks, current_ranks, require_torchrec
from deep_interest.errors import InputError
from deep_interest.pipelines.ranks import runs_on_all_ranks
from deep_interest.pipelines.wiring import owner_of

_ONE_PROCESS = (
    "tune",
    "leaderboard",
    "worth",
    "retrain",
    "score",
    "parity",
    "backtest",
    "delayed_clicks",
    "abtest",
    "ope",
)  # tags of nodes that one process runs


class RankHooks:
    """Join the ranks, keep them at the same node, and let rank 0 alone write results."""

    def __init__(self) -> None:
        self._ranks: Ranks | None = None
        self._at: str | None = None  # node that the ranks run

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Check the installation; end with the launcher; let other ranks than 0 log warnings only."""
        self._ranks = current_ranks()
        if self._ranks is None:
            return
        require_torchrec()
        from deep_interest.distributed.group import end_with_launcher  # noqa: PLC0415  # imports torch

        end_with_launcher()
        if self._ranks.rank:
            logging.disable(logging.INFO)
            os.environ["TQDM_DISABLE"] = "1"

    @hook_impl(tryfirst=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Join the process group; other ranks than 0 do not write their outputs.

        Raises:
            InputError: the pipeline or the runner is for one process.
        """
        if self._ranks is None:
            return
        if self._ranks.rank == 0:
            _check(run_params, pipeline)
        else:
            for name in pipeline.all_outputs():
                catalog[name] = Unwritten(catalog[name])
        from deep_interest.distributed.group import join_ranks  # noqa: PLC0415  # imports torch

        join_ranks()

    @hook_impl
    def before_dataset_loaded(self, dataset_name: str, node: Node) -> None:
        """Wait for all ranks before the first input of a node that all of them run: rank 0 has written it by then."""
        if self._ranks is None or node.name == self._at or not runs_on_all_ranks(node):
            return
        from deep_interest.distributed.group import from_rank_0  # noqa: PLC0415  # imports torch

        self._at = node.name
        expected = from_rank_0(node.name)
        assert expected == node.name, f"rank {self._ranks.rank} runs {node.name}, rank 0 runs {expected}"

    @hook_impl
    def after_pipeline_run(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._ranks is not None:
            from deep_interest.distributed.group import leave_ranks  # noqa: PLC0415  # imports torch

            self._at = None
            leave_ranks()


def _check(run_params: dict[str, Any], pipeline: Pipeline) -> None:
    found = [(tag, *owner_of(node)) for node in pipeline.nodes for tag in _ONE_PROCESS if tag in node.tags]
    if found:
        tag, dataset, model = max(
            found, key=lambda each: each[2] or ""
        )  # some of its nodes belong to no model
        names = {
            "backtest": tag,
            "leaderboard": f"{tag}.{dataset}",
            "worth": f"{tag}.{dataset}",
            "delayed_clicks": f"{tag}.{dataset}",
        }
        name = names.get(tag, f"{tag}.{dataset}.{model}")
        raise InputError(
            f"torchrun: {name} runs in one process; run it with `kedro run --pipelines={name}`, and train models and tables of models with "
            "torchrun"
        )
    runner = run_params.get("runner") or "SequentialRunner"
    if "SequentialRunner" not in str(runner):
        raise InputError(
            f"--runner: found {runner}, but the processes of torchrun have to run the same node at a time; leave --runner out"
        )
