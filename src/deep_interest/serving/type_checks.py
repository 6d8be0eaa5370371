"""Check that ids and values of a request have the types of the source."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deep_interest.errors import InputError

_NUMBERS, _STRINGS = frozenset((int, float)), frozenset((str,))


def check_types(values: Sequence[Any], what: str, *, expect_numbers: bool, example: Any) -> None:
    """Check that all values are numbers, or all strings.

    Raises:
        InputError: one is not; the message has an example of the source.
    """
    if set(map(type, values)) <= (_NUMBERS if expect_numbers else _STRINGS):
        return  # nearly always, and much faster than a look at each value
    for value in values:
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and is_number != expect_numbers:
            raise InputError(
                f"{what}: found {value!r}; expected {'numbers' if expect_numbers else 'strings'} such as {example!r}, as "
                "in the source"
            )
