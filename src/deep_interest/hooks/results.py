"""The end of a run: the history of results, and a message that says where the results are."""

import logging
from typing import Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

logger = logging.getLogger(__name__)


class ResultsHooks:
    """Record the results of a finished run in the history, and say where they are and what comes next."""

    @hook_impl
    def after_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Log one message per kind of result; a failure is a warning, because the run has succeeded."""
        from deep_interest.hooks.run_message import RunMessage  # noqa: PLC0415  # imports pandas

        try:
            lines = list(RunMessage(run_params, pipeline, catalog).lines())
        except Exception as error:  # never let a finished run fail because of its summary
            logger.warning("The results are complete, but their summary could not be made (%s)", error)
            return
        if lines:
            logger.info("Done.\n\n%s\n", "\n".join(lines))
