"""FeatureSchema: the encoded fields that a model sees, and which of them share an embedding table."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer, model_validator

from deep_interest.errors import InputError
from deep_interest.logs import standardised

Group = Literal["item", "behavior", "profile", "context"]
Pooling = Literal["sum", "mean"]
GROUPS: tuple[Group, ...] = ("item", "behavior", "profile", "context")


class Field(BaseModel):
    """One feature group.

    Attributes:
        name: name of the column and of the embedding table.
        size: number of rows of the embedding table, including row 0 of the unknown code 0: the number of codes, or 2 for a dense
            field, which has row 0 for a missing value and row 1, which is multiplied by the value.
        pooling: pooling of the value vectors of a multi-hot field; None for a one-hot field.
        derived: whether the code of a behaviour depends on the sample (``gap``, ``position``), so that the log does not store it.
        dense: whether the codes are standardised numbers, see `logs.standardised`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int
    pooling: Pooling | None = None
    derived: bool = False
    dense: bool = False

    @model_validator(mode="after")
    def _dense_fields_have_two_rows(self) -> "Field":
        if self.dense and (self.size != standardised.ROWS or self.pooling or self.derived):
            raise ValueError(
                f"{self.name}: a dense field has the size {standardised.ROWS}, and is neither multi-hot nor derived"
            )
        return self

    @property
    def codes(self) -> int:
        """Number of codes; of a multi-hot field, number of codes of its values."""
        return standardised.CODES if self.dense else self.size

    @property
    def one_hot(self) -> bool:
        """Whether the field has one category per row: it is neither multi-hot nor dense."""
        return self.pooling is None and not self.dense

    @model_serializer(mode="wrap")
    def _without_defaults(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value not in (None, False)}


class Sequence(BaseModel):
    """A further sequence of behaviours, such as purchases next to clicks.

    Attributes:
        behavior: fields of each behaviour, those that the candidate also has first.
        max_len: maximum length of a history; that of the training options if None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    behavior: tuple[Field, ...]
    max_len: int | None = None


class FeatureSchema(BaseModel):
    """The feature groups of a dataset, by DIN's four categories (DIN Table 1).

    Attributes:
        item: fields of the candidate (item_id, category, shop, …).
        behavior: fields of each behaviour: first those that the candidate also has, which share the candidate's tables, then the
            behaviour's own (rating, action, time since).
        profile: fields of the user.
        context: fields of the impression.
        sequences: further sequences of behaviours, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: tuple[Field, ...]
    behavior: tuple[Field, ...]
    profile: tuple[Field, ...] = ()
    context: tuple[Field, ...] = ()
    sequences: dict[str, Sequence] = {}

    @model_serializer(mode="wrap")
    def _without_empty_sequences(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if name != "sequences" or value}

    @model_validator(mode="after")
    def _own_fields_are_last(self) -> "FeatureSchema":
        if self.behavior != (*self.shared, *self.own):
            raise ValueError("behavior: the fields that the candidate also has must come first")
        return self

    @property
    def shared(self) -> tuple[Field, ...]:
        """The fields of a behaviour that the candidate also has."""
        names = {field.name for field in self.item}
        return tuple(field for field in self.behavior if field.name in names)

    @property
    def own(self) -> tuple[Field, ...]:
        """The fields of a behaviour that the candidate does not have: what happened, how it ended, and when."""
        names = {field.name for field in self.item}
        return tuple(field for field in self.behavior if field.name not in names)

    @property
    def own_names(self) -> frozenset[str]:
        """Names of the fields that only behaviours have, those of further sequences included."""
        others = {field.name for group in (self.item, self.profile, self.context) for field in group}
        behaviors = {field.name for field in (*self.behavior, *self._fields_of_sequences)}
        return frozenset(behaviors - others)

    @property
    def items_only(self) -> "FeatureSchema":
        """The schema without the fields that only a behaviour has."""
        names = {field.name for field in self.item}
        sequences = {
            key: sequence.model_copy(
                update={"behavior": tuple(f for f in sequence.behavior if f.name in names)}
            )
            for key, sequence in self.sequences.items()
        }
        return self.model_copy(update={"behavior": self.shared, "sequences": sequences})

    def resized(self, sizes: Mapping[str, int]) -> "FeatureSchema":
        """Return the schema with other numbers of rows for some one-hot fields of items, behaviours, users or impressions."""
        groups: dict[str, Any] = {
            group: tuple(
                field.model_copy(update={"size": sizes.get(field.name, field.size)})
                for field in self.fields(group)
            )
            for group in GROUPS
        }
        return self.model_copy(update=groups)

    def of_sequence(self, name: str) -> "FeatureSchema":
        """Return the schema with a further sequence in place of the behaviours, and without the others."""
        return self.model_copy(update={"behavior": self.sequences[name].behavior, "sequences": {}})

    def sequences_with(self, name: str) -> tuple[str, ...]:
        """Return the sequences in which the occurrences of a field's codes can be counted."""
        return tuple(
            key
            for key, sequence in self.sequences.items()
            if any(field.name == name and not field.derived for field in sequence.behavior)
        )

    @property
    def derived(self) -> dict[str, int]:
        """``{field: size}`` of the fields of a behaviour that depend on the sample."""
        return {field.name: field.size for field in self.behavior if field.derived}

    def fields(self, group: Group) -> tuple[Field, ...]:
        """Return the fields of a group."""
        return getattr(self, group)

    def groups_of(self, name: str) -> tuple[Group, ...]:
        """Return the groups in which the occurrences of a field's codes can be counted; none for a derived field."""
        return tuple(
            group
            for group in GROUPS
            if any(field.name == name and not field.derived for field in self.fields(group))
        )

    def without(self, names: Collection[str]) -> "FeatureSchema":
        """Return the schema without some fields.

        Raises:
            InputError: a field does not exist, or no candidate or behaviour field remains.
        """
        if unknown := set(names) - set(self.tables):
            raise InputError(
                f"without: {', '.join(sorted(unknown))} is not a feature; the features are {', '.join(self.tables)}"
            )
        remaining: dict[str, Any] = {
            group: tuple(f for f in self.fields(group) if f.name not in names) for group in GROUPS
        }
        remaining["sequences"] = {
            key: sequence.model_copy(
                update={"behavior": tuple(f for f in sequence.behavior if f.name not in names)}
            )
            for key, sequence in self.sequences.items()
        }
        if not remaining["item"] or not remaining["behavior"]:
            raise InputError(
                f"without: {', '.join(names)} leaves no field of the candidate or of a behaviour"
            )
        return FeatureSchema(**remaining)

    @property
    def multi_hot(self) -> set[str]:
        """Names of the multi-hot fields."""
        return {field.name for group in GROUPS for field in self.fields(group) if field.pooling}

    @property
    def tables(self) -> dict[str, int]:
        """``{table: rows}`` of all embedding tables; fields with the same name share a table."""
        return {name: field.size for name, field in self.table_fields.items()}

    @property
    def table_fields(self) -> dict[str, Field]:
        """``{table: field}`` of all embedding tables."""
        return {
            field.name: field
            for field in (
                *self.item,
                *self.behavior,
                *self.profile,
                *self.context,
                *self._fields_of_sequences,
            )
        }

    @property
    def _fields_of_sequences(self) -> tuple[Field, ...]:
        return tuple(field for sequence in self.sequences.values() for field in sequence.behavior)
