"""Pipeline that generates the simulated log."""

from deep_interest.pipelines.simulate.pipeline import create_days_pipeline, create_pipeline

__all__ = ["create_days_pipeline", "create_pipeline"]
