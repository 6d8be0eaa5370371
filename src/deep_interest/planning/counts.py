"""Counts of a dataset, from which everything else follows."""

from dataclasses import dataclass, field

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import ITEM_ID, USER_ID, FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters

_TIME_VALUES = {"hour": 24, "weekday": 7}


@dataclass(frozen=True)
class Counts:
    """Size of a dataset.

    Attributes:
        users, items: number of distinct ids.
        behaviors: number of behaviours.
        samples: number of samples of all splits.
        values: ``{feature: number of distinct values}`` of the features that are not ids, where it is known.
        days: number of days of the samples.
        raw_bytes: size of the raw files; None if they were not read.
    """

    users: int
    items: int
    behaviors: int
    samples: int
    values: dict[str, int] = field(default_factory=dict)
    days: int | None = None
    raw_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("users", "items", "behaviors", "samples"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: found {getattr(self, name):,}, expected at least 1")

    @property
    def events(self) -> int:
        """Behaviours and samples together: the rows that the data path handles."""
        return self.behaviors + self.samples

    @property
    def behaviors_per_user(self) -> float:
        """Mean number of behaviours of a user."""
        return self.behaviors / self.users


def samples_of(protocol: ProtocolParameters, *, users: int, behaviors: int, impressions: int = 0) -> int:
    """Return the number of samples that a protocol makes.

    ``next_item`` makes a positive and a negative sample of each behaviour but a user's first, ``last_item`` of the last one of each user,
    ``rated`` one sample of each behaviour, ``by_day`` and ``given`` one of each impression. Behaviours and impressions that a protocol
    leaves out count as well, so that the number is an upper bound.
    """
    if protocol.name in ("by_day", "given"):
        return impressions
    if protocol.name == "rated":
        return behaviors
    if protocol.name == "last_item":
        return 2 * users
    return 2 * max(0, behaviors - users)


def sizes_of_fields(columns: FeatureColumns, counts: Counts, *, assumed_values: int) -> dict[str, int]:
    """Return ``{feature: rows of its embedding table}``, code 0 included.

    Args:
        columns: feature columns.
        counts: size of the dataset.
        assumed_values: number of values of features whose values were not counted.
    """
    names = dict.fromkeys([*columns.item, *columns.own_columns, *columns.profile, *columns.context])
    sizes = {}
    for name in names:
        buckets = columns.buckets.get(name)
        if name == ITEM_ID:
            values = counts.items
        elif name == USER_ID:
            values = counts.users
        elif isinstance(buckets, int):
            values = buckets
        elif buckets is not None:
            values = len(buckets) + 1
        else:
            values = counts.values.get(name, _TIME_VALUES.get(name, assumed_values))
        sizes[name] = values + 1
    return sizes


def uncounted(columns: FeatureColumns, counts: Counts) -> list[str]:
    """Return the features whose number of values is not known."""
    names = dict.fromkeys([*columns.item, *columns.own_columns, *columns.profile, *columns.context])
    known = {ITEM_ID, USER_ID, *columns.buckets, *columns.standardised, *counts.values, *_TIME_VALUES}
    return [name for name in names if name not in known]
