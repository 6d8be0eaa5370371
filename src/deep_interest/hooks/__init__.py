"""Kedro hooks: the catalog, checks before a run and plain errors, locks, retraining's exit codes, MLflow."""

from deep_interest.hooks.catalog import CatalogHooks
from deep_interest.hooks.locks import LockHooks
from deep_interest.hooks.mlflow import MLflowHooks
from deep_interest.hooks.retraining import RetrainingHooks
from deep_interest.hooks.run import RunHooks

__all__ = ["CatalogHooks", "LockHooks", "MLflowHooks", "RetrainingHooks", "RunHooks"]
