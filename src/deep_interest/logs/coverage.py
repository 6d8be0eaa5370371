"""What of the samples training does not know: unknown values of every field, and context values of later days only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.logs.encoding import CodedColumn, FeatureTables
from deep_interest.logs.protocols import SPLITS, TEST, VALIDATION, Samples

_SHOWN = 5  # values in a warning


@dataclass(frozen=True)
class Uncovered:
    """Values of a context field in a held-out split that no training day has.

    Attributes:
        field: the context feature.
        split: ``validation`` or ``test``.
        values: the distinct values, by how many rows have them.
        share: of the split's rows.
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
            f"features.context: {self.field}: {rows} a value that no training day has ({listed}); models treat it as an average "
            f"value, so the feature says nothing there: train on more days, or remove {self.field} from the features"
        )


def uncovered_values(
    impressions: pd.DataFrame, context: Mapping[str, CodedColumn], split: np.ndarray
) -> Iterator[Uncovered]:
    """The context values of the validation and test rows that training does not cover.

    Missing values are not counted: they have no value to cover.

    Args:
        impressions: the samples' impressions, with the context columns.
        context: these columns in codes that were learnt from the training rows.
        split: ``(n,)``, an index of SPLITS.
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
    """Which samples have an unknown or missing value in each field of the candidate, the user and the context.

    Args:
        samples: the samples.
        features: the codes of items and users.
        context: the context features, in the samples' order.

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
