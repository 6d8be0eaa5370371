"""Lists in parameters, which the command line can say too."""

from typing import Any


def listed(value: Any) -> Any:
    """A list as ``--params`` can give it: its commas separate parameters, so ``seeds=1 2 3`` has spaces.

    Returns:
        The words of a text, a single number as a list of one, anything else as it is.
    """
    if isinstance(value, str):
        return value.split()
    return [value] if isinstance(value, int) else value
