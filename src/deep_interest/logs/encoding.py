"""From canonical tables to codes: the behaviour log, and the feature codes of every item and user."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog, run_offsets
from deep_interest.logs.buckets import Buckets
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary

GOODS = "goods"
USER_ID = "user_id"
RESERVED = ("user", "item", "label", "time", "day", "history_end", "split", TRUE_PROBABILITY)


class FeatureColumns(BaseModel):
    """Which columns of the canonical tables are features.

    Attributes:
        item: of the items; ``goods`` is the item's own id, the others are columns of ``items``.
        behavior: the item fields that a behaviour carries too; all of them if left out.
        profile: columns of ``users``; ``user_id`` is the user's own id.
        context: columns of ``impressions``.
        buckets: of features that are numbers: how many of equal size, or the borders between them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: tuple[str, ...] = (GOODS, "category")
    behavior: tuple[str, ...] | None = None
    profile: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    buckets: dict[str, Buckets] = {}

    @model_validator(mode="after")
    def _names_can_be_used(self) -> "FeatureColumns":
        names = [*self.item, *self.profile, *self.context]
        for name in names:
            if not re.fullmatch(r"[\w-]+", name):
                raise ValueError(
                    f"{name!r} cannot name a feature; use letters, digits and _, and say under source.….columns which "
                    f"column it is: {{my_name: {name!r}}}"
                )
        if strange := set(self.buckets) - set(names) - {GOODS, USER_ID}:
            raise ValueError(
                f"buckets: {', '.join(sorted(strange))} is no feature; the features are {', '.join(names)}"
            )
        return self


@dataclass(frozen=True)
class FeatureTables:
    """Feature codes by entity.

    Attributes:
        schema: the fields and their sizes.
        items: ``{field: (I + 1,) int32}``, by item code; row 0 is the unknown item.
        users: ``{field: (U + 1,) int32}``, by user code; row 0 is the unknown user.
    """

    schema: FeatureSchema
    items: dict[str, np.ndarray]
    users: dict[str, np.ndarray]


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
        InputError: a behaviour's item is not in the catalogue.
    """
    behaviors = tables.behaviors
    user, item = users.encode(behaviors["user"]), items.encode(behaviors["item"])
    if (item == 0).any():
        missing = behaviors["item"][item == 0].iloc[0]
        raise InputError(
            f"items: {int((item == 0).sum())} behaviours are of items that have no row, the first {missing!r}"
        )
    rating = behaviors["rating"].to_numpy(np.float32) if "rating" in behaviors else None
    day = behaviors["day"].to_numpy(np.int32) if "day" in behaviors else None
    return EncodedLog(
        users, items, run_offsets(user, len(users)), user, item, behaviors["time"].to_numpy(), rating, day
    )


def encode_features(
    tables: CanonicalTables,
    log: EncodedLog,
    columns: FeatureColumns,
    *,
    known_items: np.ndarray | None = None,
    known_users: np.ndarray | None = None,
    context: dict[str, int] | None = None,
    vocabularies: FieldVocabularies | None = None,
) -> FeatureTables:
    """Code the feature columns of items and users.

    Args:
        tables: canonical tables.
        log: their coded users and items.
        columns: which columns are features.
        known_items: ``(I + 1,)`` bool by item code; values that no known item has are "unknown". All if None.
        known_users: likewise for the profile, by user code.
        context: ``{field: size}`` of the impressions' fields, coded with the samples.
        vocabularies: of an earlier time; they grow by what is new. Fitted anew if None.

    Raises:
        InputError: a column that is not in its table.
    """
    _check_names(columns)
    vocabularies = FieldVocabularies() if vocabularies is None else vocabularies
    items = {
        name: _entity_codes(
            vocabularies,
            name,
            _item_column(tables.items, name),
            log.items.encode(tables.items["item"]),
            len(log.items),
            known_items,
            columns.buckets.get(name),
        )
        for name in columns.item
    }
    users = {}
    if columns.profile:
        own = [name for name in columns.profile if name != USER_ID]
        table = _required(tables.users, "users", own) if own else pd.DataFrame()
        codes = log.users.encode(table["user"]) if own else None
        users = {
            name: _own_ids(vocabularies, log.users, known_users)
            if name == USER_ID
            else _entity_codes(
                vocabularies, name, table[name], codes, len(log.users), known_users, columns.buckets.get(name)
            )
            for name in columns.profile
        }
    behavior = columns.behavior if columns.behavior is not None else columns.item
    schema = FeatureSchema(
        item=_fields(items, columns.item),
        behavior=_fields(items, behavior),
        profile=_fields(users, columns.profile),
        context=tuple(Field(name=name, size=size) for name, size in (context or {}).items()),
    )
    return FeatureTables(schema, {k: v for k, (v, _) in items.items()}, {k: v for k, (v, _) in users.items()})


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
    return items["item"] if name == GOODS else _required(items, "items", [name])[name]


def _required(table: pd.DataFrame | None, name: str, columns: Sequence[str]) -> pd.DataFrame:
    missing = [column for column in columns if table is None or column not in table]
    if missing:
        found = "no such table" if table is None else f"the columns {', '.join(map(str, table))}"
        raise InputError(f"{name}: feature column(s) {', '.join(missing)} not found; the source has {found}")
    return table


def _own_ids(
    vocabularies: FieldVocabularies, ids: Vocabulary, known: np.ndarray | None
) -> tuple[np.ndarray, int]:
    """Codes ``(entities,)`` of the ids themselves, and the vocabulary's size."""
    codes = np.arange(len(ids), dtype=np.int32)
    return _entity_codes(vocabularies, USER_ID, pd.Series(ids.values), codes[1:], len(ids), known)


def _entity_codes(
    vocabularies: FieldVocabularies,
    name: str,
    column: pd.Series,
    entity: np.ndarray,
    entities: int,
    known: np.ndarray | None,
    buckets: Buckets | None = None,
) -> tuple[np.ndarray, int]:
    """Codes ``(entities,)`` of a column whose rows belong to the ``entity`` codes, and the vocabulary's size."""
    found, size = vocabularies.learn(
        name, column, known=None if known is None else known[entity], buckets=buckets
    )
    codes = np.zeros(entities, np.int32)
    codes[entity] = found
    codes[0] = 0
    return codes, size


def _fields(coded: dict[str, tuple[np.ndarray, int]], names: Sequence[str]) -> tuple[Field, ...]:
    unknown = [name for name in names if name not in coded]
    if unknown:
        raise InputError(
            f"features.behavior: {', '.join(unknown)} is no item field; the item fields are {', '.join(coded)}"
        )
    return tuple(Field(name=name, size=coded[name][1]) for name in names)
