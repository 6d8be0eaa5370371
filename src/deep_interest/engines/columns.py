"""Features whose values are in the partitions of a table: learn their vocabularies, encode their values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.logs.buckets import borders_of_counts
from deep_interest.logs.encoding import CodedColumn, code_column
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.schema import Field
from deep_interest.logs.standardised import CODES, ROWS, Standardisation
from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary, Vocabulary

_COMPACTED = 1_000_000  # collected values


@dataclass(frozen=True)
class LearnedColumn:
    """Encoding of a feature.

    Attributes:
        field: name and size of the feature.
        vocabulary: vocabulary of its values.
        strings: distinct strings of a multi-hot feature, whose codes are the indices of their value sets; None for other features.
        value_sets: value sets of a multi-hot feature.
    """

    field: Field
    vocabulary: FieldVocabulary
    strings: Vocabulary | None = None
    value_sets: ValueSets | None = None

    @property
    def codes(self) -> int:
        """Number of codes of the column, including code 0."""
        if self.strings is not None:
            return len(self.strings)
        return CODES if self.field.dense else self.field.size

    @property
    def unknown(self) -> np.ndarray:
        """Whether each code means a missing or unknown value, ``(codes,)`` bool."""
        return np.arange(self.codes) == 0 if self.value_sets is None else ~self.value_sets.known

    def encode(self, values: pd.Series) -> np.ndarray:
        """Return the codes of a column, ``(n,)`` int32."""
        return (self.vocabulary if self.strings is None else self.strings).encode(values)

    def coded(self) -> CodedColumn:
        """Return the feature without rows."""
        return CodedColumn(self.field, np.zeros(0, np.int32), self.value_sets)


Batches = Callable[[], Iterable[tuple[pd.Series, np.ndarray, np.ndarray | None]]]
"""Function that returns the column in batches: values ``(n,)``, which rows are known to training, and how often each row occurs."""


def learn_column(name: str, columns: FeatureColumns, batches: Batches) -> LearnedColumn:
    """Learn the encoding of a feature; the result does not depend on the order of the rows.

    Args:
        name: name of the feature.
        columns: feature columns.
        batches: values of the feature.
    """
    vocabularies = FieldVocabularies()
    if name in columns.standardised:
        fitted = Standardisation.fit_blocks(lambda: ((of[0], of[1]) for of in batches()))
        field = Field(name=name, size=ROWS, dense=True)
        return LearnedColumn(
            field, FieldVocabulary(Vocabulary(pd.Index([], dtype=np.float64)), standardisation=fitted)
        )
    multi_hot, buckets = columns.multi_hot.get(name), columns.buckets.get(name)
    values, known, rows = _distinct(batches, known_only=multi_hot is None)
    if multi_hot is not None:
        coded = code_column(vocabularies, name, values, columns, known)
        return LearnedColumn(
            coded.field, vocabularies.fields[name], Vocabulary(pd.Index(values)), coded.value_sets
        )
    if isinstance(buckets, int):
        buckets = borders_of_counts(values, rows, buckets)
    _, size = vocabularies.learn(name, values, buckets=buckets)
    return LearnedColumn(Field(name=name, size=size), vocabularies.fields[name])


def _distinct(batches: Batches, *, known_only: bool) -> tuple[pd.Series, np.ndarray, np.ndarray]:
    """Return the sorted distinct values, whether training knows each, and how many known rows have it."""
    collected: list[pd.DataFrame] = []
    size = 0
    for values, known, rows in batches():
        counted = known.astype(np.int64) if rows is None else rows * known
        frame = pd.DataFrame({"value": values.array, "known": known, "rows": counted})
        collected.append(_grouped(frame[known] if known_only else frame))
        size += len(collected[-1])
        if size > _COMPACTED:
            collected = [_grouped(pd.concat(collected, ignore_index=True))]
            size = 0
    together = _grouped(pd.concat(collected, ignore_index=True))
    return together["value"], together["known"].to_numpy(bool), together["rows"].to_numpy(np.int64)


def _grouped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby("value", sort=True, as_index=False).agg({"known": "max", "rows": "sum"})
