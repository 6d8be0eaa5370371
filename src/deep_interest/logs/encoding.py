"""Encode canonical tables: the behaviour log, and the feature codes of all items and users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs import standardised
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.feature_columns import (
    DERIVED,
    GAP,
    ITEM_ID,
    POSITION,
    TIME_FEATURES,
    USER_ID,
    FeatureColumns,
)
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.logs.tables import ARRIVED, CLICK_TIME, LOGGED_SLOT, TRUE_PROBABILITY, CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary

GAP_CODES = 44
"""Codes of ``gap``: 1 for no time, 1 + k for a time from 2^(k-1) to 2^k units; the last one for all longer times (69 years of
milliseconds, longer than any log of seconds)."""
POSITION_CODES = 130
"""Codes of ``position``: 1 for the newest behaviour, 1 + k for k later behaviours, the last one for 128 and more."""
RESERVED = (
    "user", "item", "label", "time", "day", "history_end", "split", "segment", "request", "weight", TRUE_PROBABILITY,
    LOGGED_SLOT, CLICK_TIME, ARRIVED,
)  # fmt: skip


@dataclass(frozen=True)
class FeatureTables:
    """Feature codes by entity.

    Attributes:
        schema: fields and their sizes.
        items: ``{field: (I + 1,) int32}`` by item code; row 0 is the unknown item.
        users: ``{field: (U + 1,) int32}`` by user code; row 0 is the unknown user.
        value_sets: ``{field: ValueSets}`` of multi-hot fields, whose codes are indices of value sets.
    """

    schema: FeatureSchema
    items: dict[str, np.ndarray]
    users: dict[str, np.ndarray]
    value_sets: dict[str, ValueSets] = field(default_factory=dict)


@dataclass(frozen=True)
class CodedColumn:
    """An encoded feature column.

    Attributes:
        field: name and size of the feature.
        codes: ``(n,)`` int32; for a multi-hot feature, indices of value sets.
        value_sets: value sets of a multi-hot feature, otherwise None.
    """

    field: Field
    codes: np.ndarray
    value_sets: ValueSets | None = None

    @property
    def unknown(self) -> np.ndarray:
        """``(n,)`` bool, rows without any known value."""
        return self.codes == 0 if self.value_sets is None else ~self.value_sets.known[self.codes]


def code_column(
    vocabularies: FieldVocabularies, name: str, column: pd.Series, columns: FeatureColumns, known: np.ndarray | None = None
) -> CodedColumn:  # fmt: skip
    """Encode a feature column.

    Args:
        vocabularies: vocabularies, extended by the values of the known rows unless they are frozen.
        name: name of the feature.
        column: values ``(n,)``.
        columns: feature columns, with the buckets or the separator of the feature.
        known: ``(n,)`` bool, rows whose values are learned; all if None.
    """
    if name in columns.standardised:
        codes = vocabularies.learn_standardised(name, column, known=known)
        return CodedColumn(Field(name=name, size=standardised.ROWS, dense=True), codes)
    multi_hot = columns.multi_hot.get(name)
    if multi_hot is None:
        codes, size = vocabularies.learn(name, column, known=known, buckets=columns.buckets.get(name))
        return CodedColumn(Field(name=name, size=size), codes)
    codes, size, value_sets = vocabularies.learn_value_sets(
        name, column, separator=multi_hot.separator, known=known
    )
    return CodedColumn(Field(name=name, size=size, pooling=multi_hot.pooling), codes, value_sets)


def encode_features(
    tables: CanonicalTables,
    log: EncodedLog,
    columns: FeatureColumns,
    *,
    known_items: np.ndarray | None = None,
    known_users: np.ndarray | None = None,
    context: Mapping[str, CodedColumn] | None = None,
    own: Mapping[str, CodedColumn] | None = None,
    vocabularies: FieldVocabularies | None = None,
) -> FeatureTables:
    """Encode the feature columns of items and users.

    Args:
        tables: canonical tables.
        log: their encoded behaviours.
        columns: feature columns.
        known_items: ``(I + 1,)`` bool by item code; values of other items only are unknown. All items if None.
        known_users: ``(U + 1,)`` bool by user code, likewise for the profile.
        context: encoded context features of the samples.
        own: encoded features of the behaviours themselves, see `encode_behaviors`.
        vocabularies: earlier vocabularies, which are extended; new ones if None.

    Raises:
        InputError: a feature column is not in its table.
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
    shared = (
        columns.item if columns.behavior is None else [name for name in columns.behavior if name in items]
    )
    own = {} if own is None else own
    coded = items | users | dict(context or {}) | dict(own)
    schema = FeatureSchema(
        item=_fields(items, columns.item),
        behavior=(*_fields(items, shared), *_own_fields(own, columns)),
        profile=_fields(users, columns.profile),
        context=tuple(column.field for column in (context or {}).values()),
    )
    return FeatureTables(
        schema,
        {name: column.codes for name, column in items.items()},
        {name: column.codes for name, column in users.items()},
        {name: column.value_sets for name, column in coded.items() if column.value_sets is not None},
    )


def encode_behaviors(
    behaviors: pd.DataFrame,
    columns: FeatureColumns,
    *,
    known: np.ndarray | None = None,
    vocabularies: FieldVocabularies | None = None,
) -> dict[str, CodedColumn]:
    """Encode the features of the behaviours themselves: what happened, how it ended, and when.

    Args:
        behaviors: canonical table of behaviours.
        columns: feature columns.
        known: ``(N,)`` bool, behaviours whose values are learned; all if None.
        vocabularies: earlier vocabularies, which are extended; new ones if None.

    Returns:
        ``{field: column}`` of the features that the log stores; those that depend on the sample (``gap``, ``position``) are
        computed when a batch is gathered.

    Raises:
        InputError: a feature column is not in the table.
    """
    vocabularies = FieldVocabularies() if vocabularies is None else vocabularies
    return {
        name: code_column(vocabularies, name, _behavior_column(behaviors, name, columns), columns, known)
        for name in columns.own_columns
    }


def behavior_log(
    log: EncodedLog, features: FeatureTables, own: Mapping[str, CodedColumn] | None = None
) -> BehaviorLog:
    """Return the behaviour log with the behaviour fields of the schema, and the times if a field is the time since.

    Args:
        log: encoded behaviours.
        features: feature codes of the items, and the schema.
        own: encoded features of the behaviours themselves.
    """
    schema = features.schema
    fields = {field.name: features.items[field.name][log.item] for field in schema.shared}
    fields |= {field.name: (own or {})[field.name].codes for field in schema.own if not field.derived}
    return BehaviorLog(log.offsets, fields, log.time if GAP in schema.derived else None)


def _check_names(columns: FeatureColumns) -> None:
    """Check that names are unique: a field's name is also that of its embedding table, and of a column of the samples."""
    names = columns.names
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"features: {name} occurs twice; rename the column in one of the tables")
        if name in RESERVED:
            raise InputError(
                f"features: {name} is a reserved column of the samples; rename the feature column"
            )


def _behavior_column(behaviors: pd.DataFrame, name: str, columns: FeatureColumns) -> pd.Series:
    """Return a column of the behaviours, or a feature of their time: in seconds, UTC, where the reader has not computed it."""
    if name in behaviors:
        return behaviors[name]
    if name not in TIME_FEATURES:
        raise InputError(
            f"{columns.place_of(name)}: {name} is neither an item field ({', '.join(columns.item)}) nor a column of the behaviours "
            f"({', '.join(map(str, behaviors))}), nor one of {', '.join((*DERIVED, *TIME_FEATURES))}"
        )
    hours = behaviors["time"] // 3600
    return (
        hours % 24 if name == "hour" else (hours // 24 + 3) % 7 + 1
    )  # Monday is 1; 1970-01-01 was a Thursday


def derived_fields() -> dict[str, Field]:
    """Return the fields of a behaviour that depend on the sample, by name."""
    return {
        GAP: Field(name=GAP, size=GAP_CODES, derived=True),
        POSITION: Field(name=POSITION, size=POSITION_CODES, derived=True),
    }


def _own_fields(own: Mapping[str, CodedColumn], columns: FeatureColumns) -> tuple[Field, ...]:
    derived = derived_fields()
    return tuple(derived[name] if name in DERIVED else own[name].field for name in columns.own)


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
    """Encode the profile features by user code, including the user id if configured."""
    own = [name for name in columns.profile if name != USER_ID]
    rows = _required(table, "users", own) if own else pd.DataFrame()
    coded = {}
    for name in columns.profile:
        users = np.arange(1, len(ids)) if name == USER_ID else ids.encode(rows["user"])
        values = pd.Series(ids.values) if name == USER_ID else rows[name]
        column = code_column(vocabularies, name, values, columns, _of(known, users))
        coded[name] = _by_entity(column, users, len(ids))
    return coded


def _of(known: np.ndarray | None, entity: np.ndarray) -> np.ndarray | None:
    return None if known is None else known[entity]


def _by_entity(column: CodedColumn, entity: np.ndarray, entities: int) -> CodedColumn:
    """Rearrange a column with one row per ``entity`` code into one with a row for each of the ``entities``."""
    codes = np.zeros(entities, np.int32)
    codes[entity] = column.codes
    codes[0] = 0
    return replace(column, codes=codes)


def _fields(coded: dict[str, CodedColumn], names: Sequence[str]) -> tuple[Field, ...]:
    unknown = [name for name in names if name not in coded]
    if unknown:
        raise InputError(
            f"features.behavior: {', '.join(unknown)} is not an item field; the item fields are {', '.join(coded)}"
        )
    return tuple(coded[name].field for name in names)
