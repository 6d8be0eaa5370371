"""Codes of a few ids in a large vocabulary: what is costly is computed once, not per request."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.logs.vocabulary import Vocabulary
from deep_interest.serving.type_checks import check_types


class IdLookup:
    """Looks up ids, as `Vocabulary.encode` does.

    Args:
        vocabulary: vocabulary of the ids.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        values = vocabulary.values
        self._size = len(values)
        self._example = values[:1].tolist()[0] if len(values) else None
        self._numbers = pd.api.types.is_integer_dtype(values.dtype)
        self._codes: dict[Any, int] = {}
        if self._numbers:
            ids = values.to_numpy()
            order = np.argsort(ids, kind="stable")
            self._ids, self._code_of = ids[order], (order + 1).astype(np.int32)
            self._first = int(self._ids[0]) if len(ids) else 0
            self._is_range = (
                len(ids) > 0
                and int(self._ids[-1]) - self._first + 1 == len(ids)
                and bool((order[1:] > order[:-1]).all())
            )
        else:
            self._codes = {value: code for code, value in enumerate(values.tolist(), 1)}

    def __call__(self, ids: Sequence[Any], what: str) -> np.ndarray:
        """Return the codes of ids, ``(n,)`` int32; 0 for unknown ones.

        Args:
            ids: ids, as in the source.
            what: what they are, for error messages.

        Raises:
            InputError: they are numbers where the vocabulary has strings, or the reverse; an id would silently be unknown.
        """
        if not self._size:
            return np.zeros(len(ids), np.int32)
        check_types(ids, what, expect_numbers=not isinstance(self._example, str), example=self._example)
        if not self._numbers:
            return np.fromiter((self._codes.get(value, 0) for value in ids), np.int32, len(ids))
        values = _as_numbers(ids)
        if self._is_range:
            codes = values - (self._first - 1)
            known = (codes >= 1) & (codes <= self._size) & (codes == np.floor(codes))
            return np.where(known, codes, 0).astype(np.int32)
        at = np.minimum(np.searchsorted(self._ids, values), self._size - 1)
        return np.where(self._ids[at] == values, self._code_of[at], 0).astype(np.int32)


def _as_numbers(ids: Sequence[Any]) -> np.ndarray:
    """Return ids as int64, or as float64 if one is missing, not whole, or too large."""
    if all(type(value) is int for value in ids):
        try:
            return np.asarray(ids, np.int64)
        except OverflowError:
            pass
    return np.asarray([np.nan if value is None else value for value in ids], np.float64)
