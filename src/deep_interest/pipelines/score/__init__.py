"""Users × candidates to the champion's scores."""

from deep_interest.pipelines.score.pipeline import create_pipeline

__all__ = ["create_pipeline"]
