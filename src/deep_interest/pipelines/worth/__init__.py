"""Pipeline that measures what more data, longer histories and wider embeddings are worth to a model."""

from typing import TYPE_CHECKING

from deep_interest.pipelines.lazy import attributes_of

if TYPE_CHECKING:
    from deep_interest.pipelines.worth.pipeline import create_pipeline

__all__ = ["create_pipeline"]

__getattr__ = attributes_of("deep_interest.pipelines.worth.pipeline")
