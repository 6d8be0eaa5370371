"""Exit codes of the commands, and one message for an error or for Ctrl-C."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from deep_interest.errors import InputError

_COMMAND = re.compile(r"`((?:kedro run|deep-interest) [^`]*)`")
INTERRUPTED = "interrupted; finished work is kept, and the same command resumes"


def with_environment(message: str, env: str | None) -> str:
    """Add the environment of the run to the commands that a message advises."""
    if not env:
        return message
    return _COMMAND.sub(
        lambda found: found[0] if "--env" in found[1] else f"`{found[1]} --env={env}`", message
    )


@contextmanager
def one_message(
    configuration: Any = lambda: None, *, explain: Any = lambda error: None, env: Any = lambda: None
) -> Iterator[None]:
    """Turn an error within the block into one message and an exit code: 1 for an error, 130 for Ctrl-C.

    Args:
        configuration: function that returns the project's `Configuration` or None; called after an error only.
        explain: function that returns the message of an error that the caller understands best, or None.
        env: function that returns the configuration environment that the user chose, or None.

    Raises:
        SystemExit: with the exit code.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{INTERRUPTED}\n")
        sys.exit(130)
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        from deep_interest.messages.report import plain_message  # noqa: PLC0415  # imports Kedro

        message = explain(error)
        if message is None:
            try:
                message = plain_message(error, configuration())
            except InputError as broken:  # the configuration cannot even be read
                message = str(broken)
        if message is None:
            raise
        sys.stderr.write(f"error: {with_environment(message, env())}\n")
        sys.exit(1)
