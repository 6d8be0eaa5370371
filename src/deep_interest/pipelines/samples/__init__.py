"""Pipeline from canonical tables to vocabularies, the behaviour log, features and samples."""

from deep_interest.pipelines.samples.pipeline import create_pipeline

__all__ = ["create_pipeline"]
