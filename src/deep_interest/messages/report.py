"""One message for every error that a user can cause; the traceback remains for errors of the program."""

import sys
from types import TracebackType

from kedro.framework.cli.utils import KedroCliError
from kedro.io import DatasetError
from kedro.validation import ParameterValidationError
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from deep_interest.errors import InputError
from deep_interest.messages.configuration import Configuration
from deep_interest.messages.exits import INTERRUPTED, with_environment
from deep_interest.messages.system import system_message
from deep_interest.messages.validation import parameters_message, validation_message

_ARGUMENTS = "must only contain arguments valid for the constructor"


def plain_message(error: BaseException, configuration: Configuration | None = None) -> str | None:
    """Return the message of an error that a user can cause; None for an error of the program.

    Args:
        error: the uncaught error.
        configuration: the project's configuration, for files and lines; None if it is not known.
    """
    root, causes = error, [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    if found := next((cause for cause in causes if isinstance(cause, InputError)), None):
        return str(found)
    if entry := next(
        (cause for cause in causes if _ARGUMENTS in str(cause) and isinstance(cause, DatasetError)), None
    ):
        return _kedro(entry, configuration)
    while isinstance(root, DatasetError) and root.__cause__ is not None:
        root = root.__cause__
    return _validation(root, configuration) or system_message(error) or _kedro(root, configuration)


def _validation(error: BaseException, configuration: Configuration | None) -> str | None:
    """Describe invalid parameters."""
    if isinstance(error, ValidationError):
        return validation_message(error)
    if not isinstance(error, ParameterValidationError):
        return None
    if configuration is None:
        return str(error)
    parameters = configuration.loader["parameters"]
    return parameters_message(str(error), parameters, configuration.locate) or str(error)


def _kedro(error: BaseException, configuration: Configuration | None) -> str | None:
    """Describe an error of Kedro's own that names what the user has to correct."""
    if isinstance(error, OmegaConfBaseException) and configuration:
        return configuration.interpolation_message(error)
    if isinstance(error, DatasetError):
        return configuration.catalog_message(str(error)) if configuration else str(error)
    return str(error) if isinstance(error, KedroCliError) else None


def report_error(
    kind: type[BaseException],
    error: BaseException,
    traceback: TracebackType | None,
    *,
    configuration: Configuration | None = None,
) -> None:
    """Report an uncaught error: one message for invalid input, Python's traceback for everything else.

    Args:
        kind, error, traceback: as for `sys.excepthook`.
        configuration: the project's configuration, for files and lines.
    """
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write(f"{INTERRUPTED}\n")
    elif message := plain_message(error, configuration):
        env = configuration.loader.env if configuration else None
        sys.stderr.write(f"error: {with_environment(message, env)}\n")
    else:
        sys.__excepthook__(kind, error, traceback)
