"""Test predictions of all rows to the table and its picture."""

from deep_interest.pipelines.report.pipeline import (
    create_pictures_pipeline,
    create_pipeline,
    create_row_pipeline,
)

__all__ = ["create_pictures_pipeline", "create_pipeline", "create_row_pipeline"]
