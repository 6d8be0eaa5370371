"""Kedro hooks: checks before a run and plain errors, progress, locks, retraining's exit codes, MLflow."""

from deep_interest.hooks.locks import LockHooks
from deep_interest.hooks.mlflow import MLflowHooks
from deep_interest.hooks.progress import ProgressHooks
from deep_interest.hooks.retraining import RetrainingHooks
from deep_interest.hooks.run import RunHooks

__all__ = ["LockHooks", "MLflowHooks", "ProgressHooks", "RetrainingHooks", "RunHooks"]
