"""Options of Item kNN."""

from pydantic import Field

from deep_interest.models.config import ModelConfig


class ItemKNNConfig(ModelConfig):
    """Options of ItemKNN.

    Attributes:
        neighbors: number of items that each item keeps.
        shrinkage: number of samples or behaviours that similarities are shrunk by.
        normalize: exponent of the length of the history that a sum over it is divided by.
    """

    neighbors: int = Field(1000, ge=1)
    shrinkage: float = Field(100.0, ge=0)
    normalize: float = Field(0.3, ge=0, le=1)
