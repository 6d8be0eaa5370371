"""Which columns of the canonical tables are features."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from deep_interest.config import as_list
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

Names = Annotated[tuple[str, ...], BeforeValidator(as_list)]
NEIGHBOURS = "neighbours"
"""Context feature: the logit of Item kNN for the candidate, see `training.neighbours`."""
CLICKED = "clicked"
"""Feature of impressions in a sequence: whether the impression was clicked."""


class SequenceColumns(BaseModel):
    """A further sequence of behaviours, which models represent like the first one and concatenate.

    Attributes:
        source: table of its events: ``behaviors``, or ``impressions`` (clicked and skipped ones, strictly before the sample's time).
        where: ``{column: values}``; only events with one of these values belong to the sequence. Columns of ``behaviors``, or
            ``clicked`` (0 or 1) of impressions.
        behavior: features of an event: item features, ``gap`` and ``position``; for behaviours their columns, ``weekday`` and ``hour``,
            which need not be in ``features.behavior``; for impressions ``clicked``.
        max_len: maximum length of a history; that of the training options if None.
        history_days: number of days before the sample's own from which events are seen; all if None.
        delay: time after which an event has been logged, in the unit of the log's times: a sample sees only events at least as old.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["behaviors", "impressions"] = "behaviors"
    where: dict[str, tuple[bool | int | float | str, ...]] = {}
    behavior: tuple[str, ...] = Field(min_length=1)
    max_len: int | None = Field(None, ge=1)
    history_days: int | None = Field(None, ge=1)
    delay: int = Field(0, ge=0)


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
        standardised: numeric features that models see as a number, (value - mean) / standard deviation of the training rows, instead of
            as buckets. A feature can be in only one of ``buckets``, ``multi_hot`` and ``standardised``.
        neighbours: number of newest behaviours whose item-item neighbourhood (Item kNN, fitted to the training samples) scores the
            candidate; the score is a standardised context feature ``neighbours``. None for no such feature.
        sequences: further sequences of behaviours, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: Names = (ITEM_ID, "category")
    behavior: Names | None = None
    profile: Names = ()
    context: Names = ()
    buckets: dict[str, Buckets] = {}
    multi_hot: dict[str, MultiHot] = {}
    standardised: Names = ()
    neighbours: int | None = Field(None, ge=1)
    sequences: dict[str, SequenceColumns] = {}

    @model_validator(mode="before")
    @classmethod
    def _rename_goods(cls, block: Any) -> Any:
        """Accept ``goods``, the former name of ``item_id``."""
        return {key: _renamed(value) for key, value in block.items()} if isinstance(block, Mapping) else block

    @model_validator(mode="after")
    def _names_can_be_used(self) -> "FeatureColumns":
        names = self.names
        for name in names:
            if not re.fullmatch(r"[\w-]+", name):
                raise ValueError(
                    f"{name!r} is not a valid feature name; use letters, digits and _, and map the column under source.….columns: "
                    f"{{my_name: {name!r}}}"
                )
        if self.neighbours is not None and NEIGHBOURS in names:
            raise ValueError(
                f"neighbours: the feature {NEIGHBOURS} is computed, but a column has the same name; rename the column's feature"
            )
        computed = {name for name in (*self._all_own, *self._of_impressions) if name in (*DERIVED, CLICKED)}
        if both := computed & {*self.item, *self.profile, *self.context}:
            raise ValueError(
                f"{', '.join(sorted(both))}: computed for behaviours, but a column of items, users or impressions has the same name; rename "
                f"the column's feature under source.….columns"
            )
        for key, named in (
            ("buckets", self.buckets),
            ("multi_hot", self.multi_hot),
            ("standardised", self.standardised),
        ):
            if unknown := set(named) - set(names) - {ITEM_ID, USER_ID}:
                raise ValueError(
                    f"{key}: {', '.join(sorted(unknown))} is not a feature; the features are {', '.join(names)}"
                )
        if (
            derived := set(self._all_own)
            & {*self.buckets, *self.multi_hot, *self.standardised}
            & set(DERIVED)
        ):
            raise ValueError(
                f"buckets, multi_hot, standardised: {', '.join(sorted(derived))} is computed and has buckets of its own; remove it from there"
            )
        if single := set(self.multi_hot) & {ITEM_ID, USER_ID, *self.buckets}:
            raise ValueError(
                f"multi_hot: {', '.join(sorted(single))} has a single value, because it is an id or has buckets; remove it from "
                "multi_hot"
            )
        if ids := set(self.standardised) & {ITEM_ID, USER_ID}:
            raise ValueError(
                f"standardised: {', '.join(sorted(ids))} is an id, not a quantity; remove it from standardised"
            )
        if twice := set(self.standardised) & {*self.buckets, *self.multi_hot}:
            raise ValueError(
                f"standardised: {', '.join(sorted(twice))} is in buckets or multi_hot as well; keep it in only one of the three"
            )
        return self

    @model_validator(mode="after")
    def _behaviors_share_a_field(self) -> "FeatureColumns":
        for where, names in (
            ("behavior", self.behavior),
            *((f"sequences.{key}.behavior", sequence.behavior) for key, sequence in self.sequences.items()),
        ):
            if names is not None and not set(names) & set(self.item):
                raise ValueError(
                    f"{where}: found {', '.join(names)}, but a behaviour needs at least one of the item features "
                    f"{', '.join(self.item)}, by which models compare it with the candidate"
                )
        for key, sequence in self.sequences.items():
            if not re.fullmatch(r"\w+", key):
                raise ValueError(f"sequences: {key!r} is not a valid name; use letters, digits and _")
            known = (*self.item, CLICKED, *DERIVED)
            unknown = [name for name in sequence.behavior if name not in known]
            if sequence.source == "impressions" and unknown:
                raise ValueError(
                    f"sequences.{key}.behavior: {', '.join(unknown)} is not a feature of these impressions; they have "
                    f"{', '.join(known)}"
                )
            if sequence.source == "impressions" and (other := set(sequence.where) - {CLICKED}):
                raise ValueError(
                    f"sequences.{key}.where: {', '.join(sorted(other))} is not a column by which impressions can be selected; use "
                    f"{CLICKED}: [0] or {CLICKED}: [1]"
                )
        return self

    @property
    def numeric(self) -> frozenset[str]:
        """Features whose values must be numbers: those with buckets, and standardised ones."""
        return frozenset((*self.buckets, *self.standardised))

    @property
    def own(self) -> tuple[str, ...]:
        """Features of a behaviour that the candidate does not have."""
        return tuple(name for name in self.behavior or () if name not in self.item)

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of ``behaviors`` that are features, of further sequences too, including those that follow from the time."""
        return tuple(name for name in self._all_own if name not in DERIVED)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all features, in the order item, behaviour, profile, context; a name that occurs twice is there twice."""
        return (*self.item, *self._all_own, *self.profile, *self.context)

    @property
    def _all_own(self) -> tuple[str, ...]:
        """Features of behaviours that the candidate does not have, of further sequences too."""
        of_sequences = [
            name
            for sequence in self.sequences.values()
            if sequence.source == "behaviors"
            for name in sequence.behavior
            if name not in self.item
        ]
        return (*self.own, *(name for name in dict.fromkeys(of_sequences) if name not in self.own))

    @property
    def _of_impressions(self) -> tuple[str, ...]:
        """Features of the impressions in further sequences."""
        sequences = [of for of in self.sequences.values() if of.source == "impressions"]
        return tuple(name for sequence in sequences for name in sequence.behavior)

    def place_of(self, name: str) -> str:
        """Return the block of the configuration that names a feature of behaviours."""
        sequences = [key for key, sequence in self.sequences.items() if name in sequence.behavior]
        return (
            "features.behavior"
            if name in self.own or not sequences
            else f"features.sequences.{sequences[0]}.behavior"
        )

    @property
    def columns_of_behaviors(self) -> tuple[str, ...]:
        """Columns of ``behaviors`` to read: features, and those by which sequences select."""
        chosen = [
            name
            for of in self.sequences.values()
            if of.source == "behaviors"
            for name in of.where
            if name not in self.item
        ]
        return tuple(dict.fromkeys([*self.own_columns, *chosen]))


def _renamed(names: Any) -> Any:
    if isinstance(names, Mapping):
        return {ITEM_ID if name == _FORMER_ITEM_ID else name: option for name, option in names.items()}
    if isinstance(names, list | tuple):
        return [ITEM_ID if name == _FORMER_ITEM_ID else name for name in names]
    return names
