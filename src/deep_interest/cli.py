"""Kedro looks here for the project's own commands: ``run``, ``registry`` and ``deep-interest``, with one message per error."""

from typing import Any

from kedro.framework.cli.utils import CONTEXT_SETTINGS, LazyGroup

cli = LazyGroup(
    name="deep-interest",
    context_settings=CONTEXT_SETTINGS,
    lazy_subcommands={
        "run": "deep_interest.commands.kedro_commands.run",
        "registry": "deep_interest.commands.kedro_commands.registry",
        "deep-interest": "deep_interest.commands.main.cli",
    },
)


def __getattr__(name: str) -> Any:
    """Return ``run``, which a packaged project needs, on first use."""
    if name != "run":
        raise AttributeError(name)
    from deep_interest.commands.kedro_commands import run  # noqa: PLC0415

    return run
