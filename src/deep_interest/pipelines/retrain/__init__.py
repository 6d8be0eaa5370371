"""Pipeline that retrains a model on new days and promotes the new version if it is better."""

from deep_interest.pipelines.retrain.pipeline import create_pipeline

__all__ = ["create_pipeline"]
