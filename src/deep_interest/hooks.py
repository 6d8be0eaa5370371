"""What happens around a run: plain errors for what a user can mend."""

import sys

from kedro.framework.hooks import hook_impl
from kedro.io import DatasetError

from deep_interest.errors import InputError


class ProjectHooks:
    """Hooks of every run."""

    @hook_impl
    def on_pipeline_error(self, error: Exception) -> None:
        """Show a mendable error as one message, without the traceback through Kedro."""
        if _mendable(error):
            sys.tracebacklimit = 0
            error.__cause__, error.__suppress_context__ = None, True


def _mendable(error: BaseException) -> bool:
    return isinstance(error, InputError | DatasetError)
