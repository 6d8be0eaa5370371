"""Options of PNN."""

from deep_interest.models.configs.base import BaseModelConfig


class PNNConfig(BaseModelConfig):
    """Options of PNN: those of BaseModel.

    Attributes:
        own_dim: not an option, since inner products need fields of one width.
    """

    own_dim: None = None
