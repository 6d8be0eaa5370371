"""Options of STCA."""

from pydantic import Field

from deep_interest.models.config import DeepConfig


class STCAConfig(DeepConfig):
    """Options of STCA.

    Attributes:
        layers: number of layers of attention.
        heads, head_width: number of heads of each layer, and the width of each.
        expansion: width of the hidden layer of a feed-forward net, as a multiple of a behaviour's width.
    """

    layers: int = Field(2, ge=1)
    heads: int = Field(4, ge=1)
    head_width: int = Field(16, ge=1)
    expansion: int = Field(1, ge=1)
