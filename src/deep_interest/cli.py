"""Kedro looks here for the project's own commands: ``run`` and ``registry`` with one message per error.

See https://docs.kedro.org/en/stable/extend/common_use_cases/. The command ``deep-interest`` is in `commands`.
"""

from typing import Any

from kedro.framework.cli.utils import CONTEXT_SETTINGS, LazyGroup

cli = LazyGroup(
    name="deep-interest",
    context_settings=CONTEXT_SETTINGS,
    lazy_subcommands={
        "run": "deep_interest.commands.kedro_commands.run",
        "registry": "deep_interest.commands.kedro_commands.registry",
    },
)


def __getattr__(name: str) -> Any:
    """Return ``run``, which a packaged project needs, on first use."""
    if name != "run":
        raise AttributeError(name)
    from deep_interest.commands.kedro_commands import run  # noqa: PLC0415

    return run
