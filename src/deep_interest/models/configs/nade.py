"""Options of NADE."""

from typing import Literal

from pydantic import Field

from deep_interest.models.config import ModelConfig


class NADEConfig(ModelConfig):
    """Options of NADE.

    Attributes:
        width: width of the hidden layer.
        embedding_std: standard deviation of the initial vectors.
        hidden_activation: activation of the hidden layer; ``tanh`` in the paper.
        dropout: dropout rate of the hidden layer.
        stack_neighbours: whether the score of the neighbourhood gets a share in predictions that is chosen on validation data
            (`models.stacking`; not in the paper).
    """

    width: int = Field(500, ge=1)  # the paper's
    embedding_std: float = Field(0.01, gt=0)
    hidden_activation: Literal["tanh", "relu"] = "tanh"
    dropout: float = Field(0.0, ge=0, lt=1)
    stack_neighbours: bool = False
