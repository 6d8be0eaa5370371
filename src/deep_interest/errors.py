"""The error for invalid user input, configuration or environment."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: names the file, column or parameter, what was found, what was expected, and what to do."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean …?" with the names that are most similar to a mistyped one; empty if none is similar.

    Args:
        name: the mistyped name.
        names: the names that exist.
    """
    similar = difflib.get_close_matches(name, list(names), n=3, cutoff=0.7)[:2]
    return f"; did you mean {' or '.join(similar)}?" if similar else ""
