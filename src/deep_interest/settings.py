"""Kedro's settings: configuration, resolvers, hooks."""

from contextlib import ExitStack

from deep_interest.hooks import ProjectHooks
from deep_interest.run_locks import LockHooks
from deep_interest.scheduling import SchedulingHooks
from deep_interest.sources.downloads import raw_root
from deep_interest.tracking import TrackingHooks

_LOCKS = ExitStack()  # of the present run
HOOKS = (ProjectHooks(), LockHooks(_LOCKS), SchedulingHooks(_LOCKS), TrackingHooks())

CONFIG_LOADER_ARGS = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": {"parameters": "soft"},  # an environment changes single keys, not whole blocks
    "custom_resolvers": {"raw_root": lambda: str(raw_root())},
}
