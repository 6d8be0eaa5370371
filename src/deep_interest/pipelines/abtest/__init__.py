"""Pipeline from the log of an A/B test to its read-out."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.abtest.pipeline import create_pipeline

__all__ = ["create_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.abtest.pipeline")
