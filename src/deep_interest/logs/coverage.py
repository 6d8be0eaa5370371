"""Values that training does not cover: unknown values of each field, and context values that only occur on later days."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.logs.encoding import CodedColumn, FeatureTables
from deep_interest.logs.samples import SPLITS, TEST, VALIDATION, Samples

_SHOWN = 5  # values in a warning


@dataclass(frozen=True)
class Uncovered:
    """Values of a context feature in a held-out split that do not occur on any training day.

    Attributes:
        field: name of the context feature.
        split: ``validation`` or ``test``.
        values: distinct values, most frequent first.
        share: share of the rows of the split.
    """

    field: str
    split: str
    values: tuple[str, ...]
    share: float

    def __str__(self) -> str:
        listed = ", ".join(self.values[:_SHOWN]) + (", …" if len(self.values) > _SHOWN else "")
        rows = (
            f"every {self.split} row has"
            if self.share == 1
            else f"{self.share:.1%} of the {self.split} rows have"
        )
        return (
            f"features.context: {self.field}: {rows} a value that does not occur on any training day ({listed}); models treat it as "
            f"an average value, so the feature is uninformative there: train on more days, or remove {self.field} from the features"
        )


def uncovered_values(
    impressions: pd.DataFrame, context: Mapping[str, CodedColumn], split: np.ndarray
) -> Iterator[Uncovered]:
    """Yield the context values of validation and test rows that training does not cover; missing values are ignored.

    Args:
        impressions: impressions of the samples, with the context columns.
        context: codes of these columns, learned from the training rows.
        split: ``(n,)`` index into SPLITS.
    """
    for name, column in context.items():
        unknown = column.unknown & impressions[name].notna().to_numpy()
        for index in (VALIDATION, TEST):
            rows = unknown & (split == index)
            if rows.any():
                values = impressions[name][rows].value_counts().index
                share = float(rows.sum() / (split == index).sum())
                yield Uncovered(name, SPLITS[index], tuple(str(value) for value in values), share)


def unknown_fields(
    samples: Samples, features: FeatureTables, context: Mapping[str, CodedColumn] | None = None
) -> dict[str, np.ndarray]:
    """Return which samples have an unknown or missing value in each field of candidate, user and context.

    Args:
        samples: samples.
        features: feature codes of items and users.
        context: context features, in the order of the samples.

    Returns:
        ``{field: (n,) bool}``.
    """
    codes = {field.name: features.items[field.name][samples.item] for field in features.schema.item}
    codes |= {field.name: features.users[field.name][samples.user] for field in features.schema.profile}
    codes |= {name: column.codes for name, column in (context or {}).items()}
    return {
        name: ~features.value_sets[name].known[column] if name in features.value_sets else column == 0
        for name, column in codes.items()
    }
