"""Options of PNN."""

from deep_interest.models.configs.base import BaseModelConfig


class PNNConfig(BaseModelConfig):
    """Options of PNN: those of BaseModel."""
