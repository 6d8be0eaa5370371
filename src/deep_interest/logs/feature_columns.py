"""Which columns of the canonical tables are features."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from deep_interest.logs.buckets import Buckets
from deep_interest.logs.multi_hot import MultiHot

ITEM_ID = "item_id"
_FORMER_ITEM_ID = "goods"
USER_ID = "user_id"
GAP, POSITION = "gap", "position"
DERIVED = (GAP, POSITION)
"""Features of a behaviour that depend on the sample: the time since the behaviour, and the number of later behaviours."""
TIME_FEATURES = ("hour", "weekday")
"""Features that follow from a local time, unless the table has a column of that name."""


class FeatureColumns(BaseModel):
    """Which columns of the canonical tables are features.

    Attributes:
        item: item features: ``item_id`` (alias ``goods``) is the item's id, the others are columns of ``items``.
        behavior: features of a behaviour: item features, which it shares with the candidate (all of them if None), and features of
            its own: columns of ``behaviors``, ``weekday`` and ``hour`` of its time, ``gap`` (the time since the behaviour, in
            powers of two) and ``position`` (the number of later behaviours in the history).
        profile: columns of ``users``; ``user_id`` is the user's id.
        context: columns of ``impressions``.
        buckets: for numeric features, the number of buckets with equally many rows, or the borders between buckets.
        multi_hot: for features with several values per row, the separator between the values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: tuple[str, ...] = (ITEM_ID, "category")
    behavior: tuple[str, ...] | None = None
    profile: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    buckets: dict[str, Buckets] = {}
    multi_hot: dict[str, MultiHot] = {}

    @model_validator(mode="before")
    @classmethod
    def _rename_goods(cls, block: Any) -> Any:
        """Accept ``goods``, the former name of ``item_id``."""
        return {key: _renamed(value) for key, value in block.items()} if isinstance(block, Mapping) else block

    @model_validator(mode="after")
    def _names_can_be_used(self) -> "FeatureColumns":
        names = [*self.item, *self.own, *self.profile, *self.context]
        for name in names:
            if not re.fullmatch(r"[\w-]+", name):
                raise ValueError(
                    f"{name!r} is not a valid feature name; use letters, digits and _, and map the column under source.….columns: "
                    f"{{my_name: {name!r}}}"
                )
        for key, named in (("buckets", self.buckets), ("multi_hot", self.multi_hot)):
            if unknown := set(named) - set(names) - {ITEM_ID, USER_ID}:
                raise ValueError(
                    f"{key}: {', '.join(sorted(unknown))} is not a feature; the features are {', '.join(names)}"
                )
        if derived := set(self.own) & {*self.buckets, *self.multi_hot} & set(DERIVED):
            raise ValueError(
                f"buckets, multi_hot: {', '.join(sorted(derived))} is computed and has buckets of its own; remove it from there"
            )
        if single := set(self.multi_hot) & {ITEM_ID, USER_ID, *self.buckets}:
            raise ValueError(
                f"multi_hot: {', '.join(sorted(single))} has a single value, because it is an id or has buckets; remove it from "
                "multi_hot"
            )
        return self

    @property
    def own(self) -> tuple[str, ...]:
        """Features of a behaviour that the candidate does not have."""
        return tuple(name for name in self.behavior or () if name not in self.item)

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of ``behaviors`` that are features, including those that follow from the time."""
        return tuple(name for name in self.own if name not in DERIVED)


def _renamed(names: Any) -> Any:
    if isinstance(names, Mapping):
        return {ITEM_ID if name == _FORMER_ITEM_ID else name: option for name, option in names.items()}
    if isinstance(names, list | tuple):
        return [ITEM_ID if name == _FORMER_ITEM_ID else name for name in names]
    return names
