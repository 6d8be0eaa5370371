"""Test predictions of all rows to the table and its picture."""

from deep_interest.pipelines.report.pipeline import (
    create_model_pipeline,
    create_pipeline,
    create_plots_pipeline,
)

__all__ = ["create_model_pipeline", "create_pipeline", "create_plots_pipeline"]
