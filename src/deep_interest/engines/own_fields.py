"""Features of the behaviours themselves, from one partition of the log after another."""

import numpy as np
import pandas as pd

from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary


class OwnVocabulary:
    """Values of a feature in the histories of training samples.

    Args:
        name: name of the feature.
        columns: feature columns, with the buckets of the feature.
    """

    def __init__(self, name: str, columns: FeatureColumns) -> None:
        self._name, self._buckets = name, columns.buckets.get(name)
        self._values: list[pd.Series] = []

    def add(self, values: pd.Series, known: np.ndarray) -> None:
        """Collect the values of the known rows of a partition: all for quantiles, otherwise the distinct ones."""
        learned = values[known].dropna()
        self._values.append(learned if isinstance(self._buckets, int) else learned.drop_duplicates())

    def learned(self) -> FieldVocabulary:
        """Return the vocabulary of all values."""
        vocabularies = FieldVocabularies()
        values = [part for part in self._values if len(part)] or self._values[:1]
        vocabularies.learn(self._name, pd.concat(values, ignore_index=True), buckets=self._buckets)
        return vocabularies.fields[self._name]
