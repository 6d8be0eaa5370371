"""Options that several models share."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from deep_interest.ops.limits import AttentionPrecision, TablePrecision

Activation = Literal["dice", "prelu", "relu", "sigmoid"]


class Precision(BaseModel):
    """Precision in which a trained model scores.

    Attributes:
        tables: precision of the embedding tables.
        attention: precision of the factors in DIN's activation unit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tables: TablePrecision = "float32"
    attention: AttentionPrecision = "float32"

    @property
    def is_reduced(self) -> bool:
        """Whether anything is not in float32."""
        return self != Precision()

    def __str__(self) -> str:
        parts = {"tables": self.tables, "attention": self.attention}
        return " and ".join(f"{of} {name}" for name, of in parts.items() if of != "float32") or "float32"


class ModelConfig(BaseModel):
    """Options that every model has; an unknown option is an error.

    Attributes:
        without: fields that the model does not see ("without item ids" of DIN Table 4 is ``[item_id]``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    without: tuple[str, ...] = ()

    @field_validator("without", mode="before")
    @classmethod
    def _rename_goods(cls, names: Any) -> Any:
        """Accept ``goods``, the former name of ``item_id``."""
        return (
            ["item_id" if name == "goods" else name for name in names]
            if isinstance(names, list | tuple)
            else names
        )


OwnFieldsOption = Literal["concat", "scale", "both", "none"]


class DeepConfig(ModelConfig):
    """Options of the Embedding&MLP models (DIN §4.2).

    Attributes:
        embedding_dim: width of every embedding table.
        keep_top: number of items with their own row, the most frequent in training; the others share the unknown row (the filter
            of DIN §6.5); 0 keeps all.
        embedding_std: standard deviation of the initial embeddings.
        hidden: widths of the hidden layers of the MLP (200-80 in DIN and DIEN).
        activation: activation of the MLP.
        batch_norm: whether batch normalisation precedes each activation of the MLP.
        mlp_dropout: dropout rate of the outputs of the hidden layers of the MLP (none in the papers).
        item_bias: whether a weight per item id of the candidate is added to the logit, initially 0 (none in the papers).
        match_counts: whether the numbers of behaviours with the candidate's item, category, … are inputs of the MLP (`MatchCounts`; not
            in the papers).
        stack_neighbours: whether the score of the neighbourhood (``features.neighbours``) gets a share in predictions that is chosen on
            validation data (`models.stacking`; not in the papers).
        own_fields: how the fields that only a behaviour has (rating, action, time since) enter its vector: ``concat`` concatenates
            their embeddings, as DIN does with the fields of a behaviour; ``scale`` multiplies and shifts the vector of the
            shared fields (`OwnFields`), so that a pooled history knows which behaviour had which outcome; ``both``; or not at all, ``none``.
        own_dim: width of the embeddings of these fields, at most ``embedding_dim``; None for ``embedding_dim``. They have few
            codes, and a narrow one makes them cheap.
    """

    embedding_dim: int = Field(18, ge=1)
    keep_top: int = Field(0, ge=0)
    embedding_std: float = Field(0.01, gt=0)
    hidden: tuple[int, ...] = (200, 80)
    activation: Activation = "prelu"
    batch_norm: bool = False
    mlp_dropout: float = Field(0.0, ge=0, lt=1)
    item_bias: bool = False
    match_counts: bool = False
    stack_neighbours: bool = False
    own_fields: OwnFieldsOption = "both"
    own_dim: int | None = Field(8, ge=1)

    @property
    def own_width(self) -> int:
        """Width of the embeddings of the fields that only a behaviour has."""
        return self.embedding_dim if self.own_dim is None else min(self.own_dim, self.embedding_dim)

    def without_additions(self) -> Self:
        """Return the options without those that add inputs of the MLP or terms of the logit."""
        added = ("item_bias", "match_counts", "stack_neighbours", "interest_product")
        return self.model_copy(update=dict.fromkeys(type(self).model_fields.keys() & set(added), False))


class OneInterestConfig(DeepConfig):
    """Options of models that represent a history by one vector, as wide as a behaviour.

    Attributes:
        interest_product: whether the element-wise product of this vector and the candidate is an input of the MLP, as in the code of
            DIN's authors (not in the papers).
    """

    interest_product: bool = False
