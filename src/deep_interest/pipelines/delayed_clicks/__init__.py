"""Pipeline that measures what clicks cost that have not arrived, by what retraining does about them."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.delayed_clicks.pipeline import create_pipeline

__all__ = ["create_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.delayed_clicks.pipeline")
