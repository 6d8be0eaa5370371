"""Pipeline that retrains a model on new days and promotes the new version if it is better."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.retrain.pipeline import create_pipeline

__all__ = ["TAG", "create_pipeline"]

TAG = "retrain"
"""Tag of its nodes."""

__getattr__ = attributes_of("deep_interest.pipelines.retrain.pipeline")
