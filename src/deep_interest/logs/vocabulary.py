"""Vocabularies: a source's ids and feature values as dense integer codes; code 0 is "unknown"."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deep_interest.errors import InputError
from deep_interest.logs.buckets import Buckets, borders_of, bucketise
from deep_interest.logs.multi_hot import SplitColumn, ValueSets

UNKNOWN = 0
LARGEST_CODE = 2**31 - 1  # codes and history lengths are int32


def check_fits_int32(name: str, count: int) -> None:
    """Refuse more codes than int32 holds.

    Args:
        name: what is counted, for the message: a table, a field.
        count: the largest code.

    Raises:
        InputError: the count is larger than 2^31 - 1.
    """
    if count > LARGEST_CODE:
        raise InputError(
            f"{name}: {count:,} do not fit into 32-bit codes, which end at {LARGEST_CODE:,}; use fewer rows, or coarser values"
        )


@dataclass(frozen=True)
class Vocabulary:
    """The known values of one field; the code of ``values[k]`` is ``k + 1``.

    They are sorted, which makes the codes independent of the order of the rows they were read from; values that a grown
    vocabulary has learnt later follow, sorted among themselves, so that no code ever changes.
    """

    values: pd.Index

    @classmethod
    def fit(cls, *columns: pd.Series) -> "Vocabulary":
        """Collect the distinct, non-null values of the columns."""
        distinct = [pd.Index(column.dropna().unique()) for column in columns]
        values = distinct[0]
        for more in distinct[1:]:
            values = values.union(more, sort=False).unique()
        return cls(values.sort_values())

    def grown(self, column: pd.Series) -> "Vocabulary":
        """This vocabulary with the column's values that it lacks behind its own.

        Raises:
            InputError: the column is of another type, numbers where there were texts or the reverse.
        """
        more = Vocabulary.fit(column).values
        if not len(self.values) or not len(more):
            return Vocabulary(self.values if len(self.values) else more)
        kinds = [pd.api.types.is_numeric_dtype(values.dtype) for values in (self.values, more)]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"values such as {more.tolist()[0]!r}: expected {'numbers' if kinds[0] else 'texts'} as the vocabulary has them, such as "
                f"{self.values.tolist()[0]!r}; write the column as before"
            )
        return Vocabulary(self.values.append(more[~more.isin(self.values)]))

    def __len__(self) -> int:
        """The number of codes, "unknown" included: the rows that an embedding table needs."""
        return len(self.values) + 1

    def encode(self, column: pd.Series) -> np.ndarray:
        """Codes ``(n,)`` int32 of the column's values; 0 where a value is null or not in the vocabulary."""
        if self._is_integer_range():
            codes = (
                column.to_numpy() - (self.values[0] - 1) if len(self.values) else np.zeros(len(column), int)
            )
            return np.where((codes >= 1) & (codes < len(self)), codes, UNKNOWN).astype(np.int32)
        if isinstance(self.values.dtype, pd.StringDtype) and isinstance(column.dtype, pd.StringDtype):
            known, asked = (pa.array(values, pa.large_string()) for values in (self.values, column))
            found = pc.index_in(asked, value_set=known)  # three times as fast as pandas' own
            return found.fill_null(-1).to_numpy() + np.int32(1)
        return (self.values.get_indexer(column) + 1).astype(np.int32)

    def _is_integer_range(self) -> bool:
        """Whether the values are consecutive integers, so that a code is one subtraction."""
        values = self.values
        if not len(values) or not pd.api.types.is_integer_dtype(values.dtype):
            return False
        return int(values[-1]) - int(values[0]) + 1 == len(values) and values.is_monotonic_increasing


@dataclass(frozen=True)
class FieldVocabulary:
    """How one feature is coded.

    Attributes:
        vocabulary: of its values, or of its buckets.
        borders: inner borders of the buckets of a feature that is a number; None where values stand for themselves.
    """

    vocabulary: Vocabulary
    borders: tuple[float, ...] | None = None

    def encode(self, column: pd.Series) -> np.ndarray:
        """Codes ``(n,)`` int32 of the column's values."""
        return self.vocabulary.encode(column if self.borders is None else bucketise(column, self.borders))


@dataclass
class FieldVocabularies:
    """The vocabularies of a dataset's features by name; what is known keeps its codes while new values are learnt.

    Attributes:
        fields: ``{field: its vocabulary}``; bucket borders stay those of the first time.
        frozen: nothing more is learnt.
    """

    fields: dict[str, FieldVocabulary] = field(default_factory=dict)
    frozen: bool = False

    def learn(
        self, name: str, column: pd.Series, *, known: np.ndarray | None = None, buckets: Buckets | None = None
    ) -> tuple[np.ndarray, int]:
        """Learn the values of a feature's known rows, then code all of its rows.

        Args:
            name: the feature.
            column: its values ``(n,)``.
            known: ``(n,)`` bool, the rows that may be learnt from; all if None.
            buckets: of a feature that is a number.

        Returns:
            Codes ``(n,)`` int32, and the vocabulary's size.

        Raises:
            InputError: the values are of another type than before.
        """
        before = self.fields.get(name)
        if self.frozen:
            assert before is not None, name
            return before.encode(column), len(before.vocabulary)
        borders = before.borders if before else None
        if before is None and buckets is not None:
            borders = borders_of(column, buckets, known)
        values = column if borders is None else bucketise(column, borders)
        learnt = values if known is None else values[known]
        try:
            vocabulary = before.vocabulary.grown(learnt) if before else Vocabulary.fit(learnt)
        except InputError as error:
            raise InputError(f"feature {name}: {error}") from error
        check_fits_int32(f"features: values of {name}", len(vocabulary))
        self.fields[name] = FieldVocabulary(vocabulary, borders)
        return vocabulary.encode(values), len(vocabulary)

    def learn_value_sets(
        self, name: str, column: pd.Series, *, separator: str, known: np.ndarray | None = None
    ) -> tuple[np.ndarray, int, ValueSets]:
        """Learn the values in a multi-hot feature's known rows, then code the value sets of all rows.

        Args:
            name: the feature.
            column: texts ``(n,)``.
            separator: between the values in one.
            known: ``(n,)`` bool, the rows that may be learnt from; all if None.

        Returns:
            The number of each row's value set ``(n,)`` int32, the vocabulary's size, and the value sets.
        """
        split = SplitColumn.of(column, separator)
        check_fits_int32(f"features: distinct value sets of {name}", len(split.lengths))
        codes, size = self.learn(name, split.texts, known=split.known(known))
        return split.value_sets, size, ValueSets.of(split.lengths, codes)
