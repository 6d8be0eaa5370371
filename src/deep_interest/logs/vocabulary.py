"""Vocabularies: a source's ids and feature values as dense integer codes; code 0 is "unknown"."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

UNKNOWN = 0


@dataclass(frozen=True)
class Vocabulary:
    """The known values of one field, sorted; the code of ``values[k]`` is ``k + 1``.

    Sorting makes the codes independent of the order of the rows they were read from.
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
        return int(values[-1]) - int(values[0]) + 1 == len(values)
