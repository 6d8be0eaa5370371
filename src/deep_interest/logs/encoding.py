"""From canonical tables to codes: the behaviour log, and the feature codes of every item and user."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog, run_offsets
from deep_interest.logs.buckets import Buckets
from deep_interest.logs.multi_hot import MultiHot, ValueSets
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary, check_fits_int32

ITEM_ID = "item_id"
USER_ID = "user_id"
RESERVED = ("user", "item", "label", "time", "day", "history_end", "split", TRUE_PROBABILITY)


class FeatureColumns(BaseModel):
    """Which columns of the canonical tables are features.

    Attributes:
        item: item features: ``item_id`` (alias ``item_id``) is the item's id, the others are columns of ``items``.
        behavior: item features that a behaviour has as well; all of them if None.
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
    def _rename_items(cls, block: Any) -> Any:
        """Accept ``item_id``, the former name of ``item_id``."""
        return {key: _renamed(value) for key, value in block.items()} if isinstance(block, Mapping) else block

    @model_validator(mode="after")
    def _names_can_be_used(self) -> "FeatureColumns":
        names = [*self.item, *self.profile, *self.context]
        for name in names:
            if not re.fullmatch(r"[\w-]+", name):
                raise ValueError(
                    f"{name!r} cannot name a feature; use letters, digits and _, and say under source.….columns which "
                    f"column it is: {{my_name: {name!r}}}"
                )
        for key, named in (("buckets", self.buckets), ("multi_hot", self.multi_hot)):
            if strange := set(named) - set(names) - {ITEM_ID, USER_ID}:
                raise ValueError(
                    f"{key}: {', '.join(sorted(strange))} is no feature; the features are {', '.join(names)}"
                )
        if wrong := set(self.multi_hot) & {ITEM_ID, USER_ID, *self.buckets}:
            raise ValueError(
                f"multi_hot: {', '.join(sorted(wrong))} has one value: it is an id or has buckets; take it off multi_hot"
            )
        return self


def _renamed(names: Any) -> Any:
    if isinstance(names, Mapping):
        return {ITEM_ID if name == "item_id" else name: option for name, option in names.items()}
    if isinstance(names, list | tuple):
        return [ITEM_ID if name == "item_id" else name for name in names]
    return names


@dataclass(frozen=True)
class FeatureTables:
    """Feature codes by entity.

    Attributes:
        schema: the fields and their sizes.
        items: ``{field: (I + 1,) int32}``, by item code; row 0 is the unknown item.
        users: ``{field: (U + 1,) int32}``, by user code; row 0 is the unknown user.
        value_sets: ``{field: its value_sets}`` of multi-hot fields, whose codes everywhere are numbers of value sets.
    """

    schema: FeatureSchema
    items: dict[str, np.ndarray]
    users: dict[str, np.ndarray]
    value_sets: dict[str, ValueSets] = field(default_factory=dict)


@dataclass(frozen=True)
class CodedColumn:
    """A feature's column in codes.

    Attributes:
        field: the feature.
        codes: ``(n,)`` int32; of a multi-hot feature the numbers of value sets.
        value_sets: of a multi-hot feature.
    """

    field: Field
    codes: np.ndarray
    value_sets: ValueSets | None = None

    @property
    def unknown(self) -> np.ndarray:
        """``(n,)`` bool, the rows whose value, or every value, is unknown or missing."""
        return self.codes == 0 if self.value_sets is None else ~self.value_sets.known[self.codes]


def code_column(
    vocabularies: FieldVocabularies, name: str, column: pd.Series, columns: FeatureColumns, known: np.ndarray | None = None
) -> CodedColumn:  # fmt: skip
    """Code a feature's column as ``columns`` declares it.

    Args:
        vocabularies: they learn from the known rows, unless they are frozen.
        name: the feature.
        column: its values ``(n,)``.
        columns: for its buckets, or the form of its value sets.
        known: ``(n,)`` bool, the rows that may be learnt from; all if None.
    """
    form = columns.multi_hot.get(name)
    if form is None:
        codes, size = vocabularies.learn(name, column, known=known, buckets=columns.buckets.get(name))
        return CodedColumn(Field(name=name, size=size), codes)
    codes, size, value_sets = vocabularies.learn_value_sets(
        name, column, separator=form.separator, known=known
    )
    return CodedColumn(Field(name=name, size=size, pooling=form.pooling), codes, value_sets)


@dataclass(frozen=True)
class EncodedLog:
    """Everything the protocols need, in codes; ``user`` and ``item`` codes number the whole catalogue.

    Attributes:
        users: vocabulary of the user ids.
        items: vocabulary of the item ids.
        offsets: ``(U + 1,)`` runs of the users' behaviours.
        user, item: ``(N,)`` int32 codes of each behaviour.
        time: ``(N,)`` int64.
        rating: ``(N,)`` float32, or None.
        day: ``(N,)`` int32 local days, or None where the source has only times.
    """

    users: Vocabulary
    items: Vocabulary
    offsets: np.ndarray
    user: np.ndarray
    item: np.ndarray
    time: np.ndarray
    rating: np.ndarray | None
    day: np.ndarray | None = None

    @property
    def position(self) -> np.ndarray:
        """``(N,)`` how many behaviours of the same user come before each one."""
        return np.arange(len(self.user)) - self.offsets[self.user]

    @property
    def length(self) -> np.ndarray:
        """``(U,)`` number of behaviours by user code."""
        return np.diff(self.offsets)


def encode_log(tables: CanonicalTables, *, users: Vocabulary, items: Vocabulary) -> EncodedLog:
    """Code users and items of the sorted canonical tables.

    Args:
        tables: sorted by user and time.
        users: of every user of the behaviours and impressions.
        items: of the whole catalogue.

    Raises:
        InputError: a behaviour's item is not in the catalogue, or there are more users, items, or behaviours of one user than
            int32 counts.
    """
    behaviors = tables.behaviors
    check_fits_int32("users", len(users))
    check_fits_int32("items", len(items))
    user, item = users.encode(behaviors["user"]), items.encode(behaviors["item"])
    if (item == 0).any():
        missing = behaviors["item"][item == 0].iloc[0]
        raise InputError(
            f"items: {int((item == 0).sum())} behaviours are of items that have no row, the first {missing!r}"
        )
    rating = behaviors["rating"].to_numpy(np.float32) if "rating" in behaviors else None
    day = behaviors["day"].to_numpy(np.int32) if "day" in behaviors else None
    offsets = run_offsets(user, len(users))
    check_fits_int32("behaviors: behaviours of one user", int(np.diff(offsets).max()))
    return EncodedLog(users, items, offsets, user, item, behaviors["time"].to_numpy(), rating, day)


def encode_features(
    tables: CanonicalTables,
    log: EncodedLog,
    columns: FeatureColumns,
    *,
    known_items: np.ndarray | None = None,
    known_users: np.ndarray | None = None,
    context: Mapping[str, CodedColumn] | None = None,
    vocabularies: FieldVocabularies | None = None,
) -> FeatureTables:
    """Code the feature columns of items and users.

    Args:
        tables: canonical tables.
        log: their coded users and items.
        columns: which columns are features.
        known_items: ``(I + 1,)`` bool by item code; values that no known item has are "unknown". All if None.
        known_users: likewise for the profile, by user code.
        context: the impressions' features, coded with the samples.
        vocabularies: of an earlier time; they grow by what is new. Fitted anew if None.

    Raises:
        InputError: a column that is not in its table.
    """
    _check_names(columns)
    vocabularies = FieldVocabularies() if vocabularies is None else vocabularies
    entity = log.items.encode(tables.items["item"])
    items = {
        name: _by_entity(
            code_column(
                vocabularies, name, _item_column(tables.items, name), columns, _of(known_items, entity)
            ),
            entity,
            len(log.items),
        )
        for name in columns.item
    }
    users = _profile(tables.users, log.users, columns, vocabularies, known_users) if columns.profile else {}
    behavior = columns.behavior if columns.behavior is not None else columns.item
    coded = items | users | dict(context or {})
    schema = FeatureSchema(
        item=_fields(items, columns.item),
        behavior=_fields(items, behavior),
        profile=_fields(users, columns.profile),
        context=tuple(column.field for column in (context or {}).values()),
    )
    return FeatureTables(
        schema,
        {name: column.codes for name, column in items.items()},
        {name: column.codes for name, column in users.items()},
        {name: column.value_sets for name, column in coded.items() if column.value_sets is not None},
    )


def behavior_log(log: EncodedLog, features: FeatureTables) -> BehaviorLog:
    """The behaviour log with the fields that the schema gives a behaviour."""
    fields = {field.name: features.items[field.name][log.item] for field in features.schema.behavior}
    return BehaviorLog(log.offsets, fields)


def _check_names(columns: FeatureColumns) -> None:
    """A field's name is its embedding table's and, for context, its column's in the samples: it must be its own."""
    names = [*columns.item, *columns.profile, *columns.context]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"features: {name} stands there twice; rename the column in one of the tables")
        if name in RESERVED:
            raise InputError(
                f"features: {name} is a column of the samples themselves; rename the feature column"
            )


def _item_column(items: pd.DataFrame, name: str) -> pd.Series:
    return items["item"] if name == ITEM_ID else _required(items, "items", [name])[name]


def _required(table: pd.DataFrame | None, name: str, columns: Sequence[str]) -> pd.DataFrame:
    missing = [column for column in columns if table is None or column not in table]
    if missing:
        found = "no such table" if table is None else f"the columns {', '.join(map(str, table))}"
        raise InputError(f"{name}: feature column(s) {', '.join(missing)} not found; the source has {found}")
    return table


def _profile(
    table: pd.DataFrame | None, ids: Vocabulary, columns: FeatureColumns, vocabularies: FieldVocabularies, known: np.ndarray | None
) -> dict[str, CodedColumn]:  # fmt: skip
    """The profile's features by user code; a user's own id is one of them."""
    own = [name for name in columns.profile if name != USER_ID]
    rows = _required(table, "users", own)["user"] if own else None
    coded = {}
    for name in columns.profile:
        users = np.arange(1, len(ids)) if name == USER_ID else ids.encode(rows)
        values = pd.Series(ids.values) if name == USER_ID else table[name]
        column = code_column(vocabularies, name, values, columns, _of(known, users))
        coded[name] = _by_entity(column, users, len(ids))
    return coded


def _of(known: np.ndarray | None, entity: np.ndarray) -> np.ndarray | None:
    return None if known is None else known[entity]


def _by_entity(column: CodedColumn, entity: np.ndarray, entities: int) -> CodedColumn:
    """A column whose rows belong to the ``entity`` codes as one with a row for each of the ``entities``."""
    codes = np.zeros(entities, np.int32)
    codes[entity] = column.codes
    codes[0] = 0
    return replace(column, codes=codes)


def _fields(coded: dict[str, CodedColumn], names: Sequence[str]) -> tuple[Field, ...]:
    unknown = [name for name in names if name not in coded]
    if unknown:
        raise InputError(
            f"features.behavior: {', '.join(unknown)} is no item field; the item fields are {', '.join(coded)}"
        )
    return tuple(coded[name].field for name in names)
