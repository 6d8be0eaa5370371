"""The engine that runs the operations: our compiled kernels, or the plain implementations in torch and NumPy."""

import os
from typing import Literal, get_args

from deep_interest.errors import InputError

Engine = Literal["compiled", "plain"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
ENGINE_VARIABLE = "DEEP_INTEREST_ENGINE"

_engine: Engine | None = None  # of this process; None until the first operation or `set_engine`


def current_engine() -> Engine:
    """Return the engine of this process: the one set last, by default that of the environment variable.

    Raises:
        InputError: the environment variable names an unknown engine.
    """
    return _engine or set_engine(None)


def set_engine(engine: Engine | None) -> Engine:
    """Set the engine of this process, as `torch.set_num_threads` sets its threads.

    Args:
        engine: ``compiled`` or ``plain``; None for the environment variable ``DEEP_INTEREST_ENGINE``, or for ``compiled``
            where that is not set.

    Returns:
        The engine.

    Raises:
        InputError: the environment variable names an unknown engine.
    """
    global _engine  # noqa: PLW0603
    _engine = resolve_engine(engine)
    return _engine


def resolve_engine(engine: Engine | None) -> Engine:
    """Return an engine, or for None that of the environment variable; changes nothing.

    Raises:
        InputError: the environment variable names an unknown engine.
    """
    if engine is not None:
        return engine
    value = os.environ.get(ENGINE_VARIABLE) or "compiled"
    for known in ENGINES:
        if value == known:
            return known
    raise InputError(f"{ENGINE_VARIABLE}: {value!r} is not an engine; set it to {' or '.join(ENGINES)}")
