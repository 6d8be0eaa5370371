"""Pipeline that replays the simulated log day by day to compare retraining strategies."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.backtest.pipeline import create_pipeline

__all__ = ["create_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.backtest.pipeline")
