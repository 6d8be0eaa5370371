"""Kedro's settings: configuration, resolvers, hooks."""

from contextlib import ExitStack

from deep_interest.hooks import (
    CatalogHooks,
    LockHooks,
    MLflowHooks,
    ProgressHooks,
    ResultsHooks,
    RetrainingHooks,
    RunHooks,
)
from deep_interest.sources.downloads import raw_root

_LOCKS = ExitStack()  # of the present run
HOOKS = (
    CatalogHooks(),
    RunHooks(),
    LockHooks(_LOCKS),
    RetrainingHooks(_LOCKS),
    MLflowHooks(),
    ProgressHooks(),
    ResultsHooks(),
)

CONFIG_LOADER_ARGS = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": {"parameters": "soft"},  # an environment changes single keys, not whole blocks
    "custom_resolvers": {"raw_root": lambda: str(raw_root())},
}
