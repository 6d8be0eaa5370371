"""Options of the baselines that only use the candidate."""

from deep_interest.models.config import ModelConfig


class PopularityConfig(ModelConfig):
    """Options of Popularity: only those of every model."""


class ItemRateConfig(ModelConfig):
    """Options of ItemRate: only those of every model; the strength of the prior is estimated."""
