"""What happens around a run: one line a node, and plain errors for what a user can mend."""

import logging
import sys
import time
from types import TracebackType

from kedro.framework.hooks import hook_impl
from kedro.io import DatasetError
from kedro.pipeline.node import Node
from kedro.validation import ParameterValidationError

from deep_interest.errors import InputError

logger = logging.getLogger(__name__)


class ProjectHooks:
    """Hooks of every run."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}

    @hook_impl
    def after_context_created(self) -> None:
        """From here on, what a user can mend is one message."""
        sys.excepthook = explain

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        self._started[node.name] = time.perf_counter()
        logger.info("%s …", node.name)

    @hook_impl
    def after_node_run(self, node: Node) -> None:
        logger.info("%s done in %.1f s", node.name, time.perf_counter() - self._started.pop(node.name))


def explain(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Report an uncaught error: one message where the user can mend it, Python's traceback otherwise."""
    root = error
    while isinstance(root, DatasetError) and root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, InputError | DatasetError | ParameterValidationError):
        sys.stderr.write(f"error: {root}\n")
    else:
        sys.__excepthook__(kind, error, traceback)
