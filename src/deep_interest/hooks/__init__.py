"""Kedro hooks: catalog, checks before a run and plain errors, progress, locks, retraining's exit codes, MLflow, results."""

from deep_interest.hooks.catalog import CatalogHooks
from deep_interest.hooks.locks import LockHooks
from deep_interest.hooks.mlflow import MLflowHooks
from deep_interest.hooks.progress import ProgressHooks
from deep_interest.hooks.ranks import RankHooks
from deep_interest.hooks.results import ResultsHooks
from deep_interest.hooks.retraining import RetrainingHooks
from deep_interest.hooks.run import RunHooks

__all__ = [
    "CatalogHooks", "LockHooks", "MLflowHooks", "ProgressHooks", "RankHooks", "ResultsHooks", "RetrainingHooks", "RunHooks",
]  # fmt: skip
