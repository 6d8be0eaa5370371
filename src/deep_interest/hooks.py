"""What happens around a run: one line a node, and plain errors for what a user can mend."""

import logging
import sys
import time

from kedro.framework.hooks import hook_impl
from kedro.io import DatasetError
from kedro.pipeline.node import Node

from deep_interest.errors import InputError

logger = logging.getLogger(__name__)


class ProjectHooks:
    """Hooks of every run."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        self._started[node.name] = time.perf_counter()
        logger.info("%s …", node.name)

    @hook_impl
    def after_node_run(self, node: Node) -> None:
        logger.info("%s done in %.1f s", node.name, time.perf_counter() - self._started.pop(node.name))

    @hook_impl
    def on_pipeline_error(self, error: Exception) -> None:
        """Show a mendable error as one message, without the traceback through Kedro."""
        if isinstance(error, InputError | DatasetError):
            sys.tracebacklimit = 0
            error.__cause__, error.__suppress_context__ = None, True
