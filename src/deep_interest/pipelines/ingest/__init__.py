"""Pipeline from raw files to canonical tables."""

from deep_interest.pipelines.ingest.pipeline import create_pipeline

__all__ = ["create_pipeline"]
