"""Pipeline that trains a model on a dataset and predicts the test set."""

from deep_interest.pipelines.train.pipeline import create_collection, create_pipeline, create_settings

__all__ = ["create_collection", "create_pipeline", "create_settings"]
