"""Options of DMIN."""

from pydantic import Field

from deep_interest.models.config import Activation
from deep_interest.models.configs.auxiliary import AuxiliaryConfig


class DMINConfig(AuxiliaryConfig):
    """Options of DMIN; the defaults are those of the authors' code.

    Attributes:
        heads: number of heads of both self-attention layers, and thus of interests.
        positions: number of embeddings of the distance to the newest behaviour; larger distances share the last one.
        position_dim: width of the position embeddings.
        attention_hidden, attention_activation: hidden widths and activation of the activation unit of each interest.
    """

    heads: int = Field(4, ge=1)
    aux_weight: float = Field(1.0, ge=0)
    positions: int = Field(100, ge=1)
    position_dim: int = Field(2, ge=1)
    attention_hidden: tuple[int, ...] = Field((80, 40), min_length=1)
    attention_activation: Activation = "sigmoid"
