"""Pipeline that generates the simulated log."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.simulate.pipeline import create_days_pipeline, create_pipeline

__all__ = ["create_days_pipeline", "create_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.simulate.pipeline")
