"""A replay of the simulated log, day by day."""

from deep_interest.pipelines.backtest.pipeline import create_pipeline

__all__ = ["create_pipeline"]
