"""FeatureSchema: which coded fields a model sees, and which of them share an embedding table."""

from collections.abc import Collection
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from deep_interest.errors import InputError

Group = Literal["item", "behavior", "profile", "context"]
Pooling = Literal["sum", "mean"]
GROUPS: tuple[Group, ...] = ("item", "behavior", "profile", "context")


class Field(BaseModel):
    """One feature group.

    Attributes:
        name: the field's column, and the name of its embedding table.
        size: number of codes, "unknown" (0) included.
        pooling: of the vectors of a multi-hot field's values; None for a one-hot field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int
    pooling: Pooling | None = None

    @model_serializer(mode="wrap")
    def _one_hot_without_pooling(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value is not None}


class FeatureSchema(BaseModel):
    """The feature groups of a dataset, by DIN's four categories (DIN Table 1).

    Attributes:
        item: fields of the candidate (item_id, category, shop, …).
        behavior: fields of each behaviour; a field that the candidate also has shares the candidate's table.
        profile: fields of the user.
        context: fields of the impression.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: tuple[Field, ...]
    behavior: tuple[Field, ...]
    profile: tuple[Field, ...] = ()
    context: tuple[Field, ...] = ()

    def fields(self, group: Group) -> tuple[Field, ...]:
        """The fields of one group."""
        return getattr(self, group)

    def groups_of(self, name: str) -> tuple[Group, ...]:
        """The groups that have a field of this name."""
        return tuple(group for group in GROUPS if any(field.name == name for field in self.fields(group)))

    def without(self, names: Collection[str]) -> "FeatureSchema":
        """The schema without some fields.

        Raises:
            InputError: no such field, or no candidate or behaviour field left.
        """
        if unknown := set(names) - set(self.tables):
            raise InputError(
                f"without: {', '.join(sorted(unknown))} is no feature; the features are {', '.join(self.tables)}"
            )
        left = {group: tuple(f for f in self.fields(group) if f.name not in names) for group in GROUPS}
        if not left["item"] or not left["behavior"]:
            raise InputError(
                f"without: {', '.join(names)} leaves no field of the candidate or of a behaviour"
            )
        return FeatureSchema(**left)

    @property
    def multi_hot(self) -> set[str]:
        """The fields with several values in a value set."""
        return {field.name for group in GROUPS for field in self.fields(group) if field.pooling}

    @property
    def tables(self) -> dict[str, int]:
        """``{table: rows}`` of all embedding tables; fields of one name share one table."""
        return {
            field.name: field.size for field in (*self.item, *self.behavior, *self.profile, *self.context)
        }
