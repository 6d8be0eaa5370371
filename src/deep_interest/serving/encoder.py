"""Ids and values of a request, in the source's own form, as the codes of a model."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from deep_interest.errors import InputError
from deep_interest.logs.encoding import code_column
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.models.batch import ValueSetLookup
from deep_interest.serving.id_lookup import IdLookup
from deep_interest.serving.type_checks import check_types


@dataclass(frozen=True)
class Encoder:
    """Vocabularies from the source's ids and values to the codes of a model.

    Attributes:
        users, items: ids of the log.
        context: vocabularies of the features; nothing is learned.
        columns: feature columns.
    """

    users: Vocabulary
    items: Vocabulary
    context: FieldVocabularies
    columns: FeatureColumns

    def user_codes(self, ids: Sequence[Any], what: str = "user") -> Tensor:
        """Return the codes of users, ``(n,)`` int32; 0 for unknown ones.

        Raises:
            InputError: an id is a number where the source has strings, or the reverse.
        """
        return torch.from_numpy(self._lookup_user(ids, what))

    def item_codes(self, ids: Sequence[Any], what: str) -> Tensor:
        """Return the codes of items, as `user_codes`."""
        return torch.from_numpy(self._lookup_item(ids, what))

    @cached_property
    def _lookup_user(self) -> IdLookup:
        return IdLookup(self.users)

    @cached_property
    def _lookup_item(self) -> IdLookup:
        return IdLookup(self.items)

    def check_type(self, name: str, value: Any, what: str) -> None:
        """Check that a value of a feature has the type of the source; a missing one has.

        Raises:
            InputError: it is a number where the source has strings, or the reverse.
        """
        if value is None:
            return
        known = self.context.fields[name].vocabulary.values
        if name in self.columns.numeric:
            check_types([value], what, expect_numbers=True, example=1.5)
        elif pd.api.types.is_bool_dtype(known.dtype):
            if not isinstance(value, bool):
                raise InputError(f"{what}: found {value!r}; expected true or false, as in the source")
        elif len(known):
            is_number = pd.api.types.is_numeric_dtype(known.dtype)
            check_types([value], what, expect_numbers=is_number, example=known[:1].tolist()[0])

    def has_type(self, name: str, value: Any) -> bool:
        """Whether a value of a feature is not missing and has the type of the source."""
        try:
            self.check_type(name, value, name)
        except InputError:
            return False
        return value is not None

    def encode_context(
        self, values: Mapping[str, Any], names: Sequence[str], size: int, model: str
    ) -> tuple[dict[str, Tensor], dict[str, ValueSetLookup]]:
        """Encode the context features of a request.

        Args:
            values: value of each feature: one for all candidates, or a list with one per candidate.
            names: context features of the model.
            size: number of candidates, C.
            model: name of the model, for error messages.

        Returns:
            ``{field: (C,)}`` int32 codes, and the value sets of multi-hot features.

        Raises:
            InputError: a feature is missing or unknown, or a value has another type than in the source.
        """
        check_names(values, names, model)
        codes, value_sets = {}, {}
        for name in names:
            value = values[name]
            listed = list(value) if isinstance(value, list | tuple | np.ndarray | pd.Series) else [value]
            if len(listed) not in (1, size):
                raise InputError(
                    f"context: {name} has {len(listed)} values; pass one, or one per item ({size})"
                )
            column = typed_column(listed, self.context.fields[name].vocabulary, f"context: {name}")
            if name in self.columns.numeric:
                check_types(listed, f"context: {name}", expect_numbers=True, example=1.5)
                column = pd.Series(listed)
            coded = code_column(self.context, name, column, self.columns)
            codes[name] = torch.from_numpy(np.ascontiguousarray(coded.codes)).expand(size)
            if coded.value_sets is not None:
                value_sets[name] = value_set_lookup(coded.value_sets)
        return codes, value_sets


def check_names(values: Mapping[str, Any], names: Sequence[str], model: str) -> None:
    """Check that a request has a value for each context feature, and no others.

    Raises:
        InputError: a feature is missing or unknown.
    """
    missing = [name for name in names if name not in values]
    extra = [name for name in values if name not in names]
    if not missing and not extra:
        return
    needed = f"needs {', '.join(names)}" if names else "has no context features; leave it out"
    similar = [
        f"; {name} is perhaps {match}"
        for name in extra
        for match in difflib.get_close_matches(name, missing, 1)
    ]
    raise InputError(f"context: {model} {needed}; found {', '.join(values) or 'none'}{''.join(similar)}")


def typed_column(values: list[Any], vocabulary: Vocabulary, what: str) -> pd.Series:
    """Return values as a column of the vocabulary's type.

    Raises:
        InputError: they are numbers where the vocabulary has strings, or the reverse; an id would silently be unknown.
    """
    known = vocabulary.values
    if not len(values):
        return pd.Series(values, dtype=known.dtype)
    if not len(known) or pd.api.types.is_bool_dtype(known.dtype):
        return pd.Series(values)
    expect_numbers = pd.api.types.is_numeric_dtype(known.dtype)
    check_types(values, what, expect_numbers=expect_numbers, example=known[:1].tolist()[0])
    return pd.Series(values, dtype=None if expect_numbers else "str")


def value_set_lookup(value_sets: ValueSets) -> ValueSetLookup:
    """Return value sets as tensors on the CPU."""
    return ValueSetLookup(torch.from_numpy(value_sets.offsets), torch.from_numpy(value_sets.values))
