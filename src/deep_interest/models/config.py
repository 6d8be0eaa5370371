"""Options that the models have in common."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ModelConfig(BaseModel):
    """Base of every model's options; an unknown option is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DeepConfig(ModelConfig):
    """Options of the Embedding&MLP models (DIN §4.2).

    Attributes:
        embedding_dim: width of every embedding table.
        embedding_std: standard deviation of the tables' initial values.
        hidden: widths of the MLP's hidden layers (200-80 in DIN and DIEN).
        activation: of the MLP.
    """

    embedding_dim: int = Field(18, ge=1)
    embedding_std: float = Field(0.01, gt=0)
    hidden: tuple[int, ...] = (200, 80)
    activation: Literal["dice", "prelu", "relu", "sigmoid"] = "prelu"
