"""Kedro's settings: configuration, resolvers, hooks."""

import os

from deep_interest.hooks import ProjectHooks

HOOKS = (ProjectHooks(),)

CONFIG_LOADER_ARGS = {
    "base_env": "base",
    "default_run_env": "local",
    "merge_strategy": {"parameters": "soft"},  # an environment changes single keys, not whole blocks
    "custom_resolvers": {"raw_root": lambda: os.environ.get("DEEP_INTEREST_RAW", "data/01_raw")},
}
