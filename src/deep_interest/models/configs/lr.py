"""Options of LR."""

from deep_interest.models.config import ModelConfig


class LRConfig(ModelConfig):
    """Options of LR: only those of every model."""
