"""Kedro's settings: configuration, resolvers, hooks."""

from contextlib import ExitStack

from deep_interest.distributed.environment import is_worker
from deep_interest.hooks import (
    CatalogHooks,
    LockHooks,
    MLflowHooks,
    ProgressHooks,
    RankHooks,
    ResultsHooks,
    RetrainingHooks,
    RunHooks,
)
from deep_interest.sources.downloads import raw_location

_LOCKS = ExitStack()  # of the present run
_ALL_RANKS = (CatalogHooks(), RunHooks(), RankHooks())
_WRITER = (LockHooks(_LOCKS), RetrainingHooks(_LOCKS), MLflowHooks(), ProgressHooks(), ResultsHooks())
HOOKS = _ALL_RANKS if is_worker() else _ALL_RANKS + _WRITER

CONFIG_LOADER_ARGS = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": {"parameters": "soft"},  # an environment changes single keys, not whole blocks
    "custom_resolvers": {"raw_root": raw_location},
}
