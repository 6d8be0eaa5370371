"""Pipeline that trains a model on a dataset and predicts the test set."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.train.pipeline import create_collection, create_pipeline, create_settings

__all__ = ["create_collection", "create_pipeline", "create_settings"]

__getattr__ = attributes_of("deep_interest.pipelines.train.pipeline")
