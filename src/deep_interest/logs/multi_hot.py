"""Multi-hot features: a row has a set of values (DIN §4.1); a column contains the index of each row's value set."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, model_validator

from deep_interest.logs.schema import Pooling


class MultiHot(BaseModel):
    """How a column with several values per row is read and used; a string is short for ``{separator: STRING}``.

    Attributes:
        separator: separator of the values.
        pooling: pooling of the value vectors: ``sum`` (DIN §4.1) or ``mean``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    separator: str = Field("|", min_length=1)
    pooling: Pooling = "sum"

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"separator": value} if isinstance(value, str) else value


@dataclass(frozen=True)
class ValueSets:
    """The distinct value sets of a column in compressed sparse rows; value set 0 is the empty one.

    Attributes:
        offsets: ``(C + 1,)`` int64; the values of value set c are ``[offsets[c], offsets[c + 1])``, at least one.
        values: ``(M,)`` int32 codes, increasing within a value set; a value set without known values has code 0 only.
    """

    offsets: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, lengths: np.ndarray, codes: np.ndarray) -> "ValueSets":
        """Build value sets from codes that may be unknown or repeated.

        Args:
            lengths: ``(C,)`` number of codes in each value set.
            codes: ``(M,)`` codes of all value sets, concatenated.
        """
        value_set = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((codes, value_set))
        value_set, codes = value_set[order], codes[order]
        kept = codes > 0
        kept[1:] &= (codes[1:] != codes[:-1]) | (value_set[1:] != value_set[:-1])
        known = np.bincount(value_set[kept], minlength=len(lengths))
        length = np.maximum(known, 1)
        values = np.zeros(int(length.sum()), np.int32)
        values[np.repeat(known > 0, length)] = codes[kept]
        return cls(np.concatenate([[0], np.cumsum(length)]).astype(np.int64), values)

    def within(self, size: int) -> "ValueSets":
        """Return the value sets with codes of at least ``size`` as unknown."""
        return ValueSets.of(np.diff(self.offsets), np.where(self.values < size, self.values, 0))

    @property
    def known(self) -> np.ndarray:
        """``(C,)`` whether each value set has a known value."""
        return self.values[self.offsets[:-1]] > 0


@dataclass(frozen=True)
class SplitColumn:
    """A column of strings that contain several values each.

    Attributes:
        value_sets: ``(n,)`` int32 index of each row's value set; 0 for a missing value.
        lengths: ``(C,)`` number of strings in each value set.
        strings: ``(M,)`` strings of all value sets; missing if there is nothing between two separators.
    """

    value_sets: np.ndarray
    lengths: np.ndarray
    strings: pd.Series

    @classmethod
    def of(cls, column: pd.Series, separator: str) -> "SplitColumn":
        """Split each distinct string once; whitespace around a value is removed. Value sets are in the order of their strings."""
        rows, distinct = pd.factorize(column, sort=True)
        lists = pc.split_pattern(pa.array(distinct.astype(str), pa.large_string()), separator)
        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        strings = pc.utf8_trim_whitespace(lists.flatten())
        strings = pc.if_else(pc.equal(strings, ""), pa.scalar(None, pa.large_string()), strings)
        return cls(
            (rows + 1).astype(np.int32),
            np.concatenate([[0], lengths]).astype(np.int64),
            pd.Series(strings.to_numpy(zero_copy_only=False), dtype="str"),
        )

    def known(self, rows: np.ndarray | None) -> np.ndarray | None:
        """Return whether each string is in a value set of one of the ``rows (n,)``, ``(M,)``; None for None."""
        if rows is None:
            return None
        used = np.zeros(len(self.lengths), bool)
        used[self.value_sets[rows]] = True
        return np.repeat(used, self.lengths)
