"""New days to a version that serves, or to the reasons why not."""

from deep_interest.pipelines.retrain.pipeline import create_pipeline

__all__ = ["create_pipeline"]
