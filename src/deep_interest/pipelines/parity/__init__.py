"""Pipeline that compares what the service has served with batch scoring."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.parity.pipeline import create_pipeline

__all__ = ["create_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.parity.pipeline")
