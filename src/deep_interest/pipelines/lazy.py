"""Import pipelines on first use: listing their names and starting a small command need none of their nodes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def attributes_of(module: str) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` (PEP 562) that takes its attributes from a module, imported on first access.

    Args:
        module: full name of the module.
    """

    def get_attribute(name: str) -> Any:
        if name.startswith("__"):  # asked by the import system and by inspection
            raise AttributeError(name)
        return getattr(import_module(module), name)

    return get_attribute
