"""Pipeline that searches the options of a model on validation data."""

from deep_interest.pipelines.tune.pipeline import create_pipeline

__all__ = ["create_pipeline"]
