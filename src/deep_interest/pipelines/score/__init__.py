"""Pipeline that scores users and candidates with the champion."""

from deep_interest.pipelines.score.pipeline import create_pipeline

__all__ = ["create_pipeline"]
