"""Pipeline that replays the simulated log day by day to compare retraining strategies."""

from deep_interest.pipelines.backtest.pipeline import create_pipeline

__all__ = ["create_pipeline"]
