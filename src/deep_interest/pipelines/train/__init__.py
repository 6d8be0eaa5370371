"""One experiment of the grid: train a model on a dataset, score the test set."""

from deep_interest.pipelines.train.pipeline import create_pipeline

__all__ = ["create_pipeline"]
