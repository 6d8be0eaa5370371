"""FeatureSchema: which coded fields a model sees, and which of them share an embedding table."""

from pydantic import BaseModel, ConfigDict


class Field(BaseModel):
    """One one-hot feature group.

    Attributes:
        name: the field's column, and the name of its embedding table.
        size: number of codes, "unknown" (0) included.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int


class FeatureSchema(BaseModel):
    """The feature groups of a dataset, by DIN's four categories (DIN Table 1).

    Attributes:
        item: fields of the candidate (goods, category, shop, …).
        behavior: fields of each behaviour; a field that the candidate also has shares the candidate's table.
        profile: fields of the user.
        context: fields of the impression.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: tuple[Field, ...]
    behavior: tuple[Field, ...]
    profile: tuple[Field, ...] = ()
    context: tuple[Field, ...] = ()

    @property
    def tables(self) -> dict[str, int]:
        """``{table: rows}`` of all embedding tables; fields of one name share one table."""
        return {
            field.name: field.size for field in (*self.item, *self.behavior, *self.profile, *self.context)
        }
