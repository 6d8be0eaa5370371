"""Draw the simulated industrial log."""

from deep_interest.pipelines.simulate.pipeline import create_pipeline

__all__ = ["create_pipeline"]
