"""Pipelines from test predictions to results tables, plots and the report."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.report.pipeline import (
        create_model_pipeline,
        create_pipeline,
        create_plots_pipeline,
    )

__all__ = ["create_model_pipeline", "create_pipeline", "create_plots_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.report.pipeline")
