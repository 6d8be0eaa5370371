"""Options of DeepFM."""

from deep_interest.models.configs.base import UnfilteredConfig


class DeepFMConfig(UnfilteredConfig):
    """Options of DeepFM: those of BaseModel."""
