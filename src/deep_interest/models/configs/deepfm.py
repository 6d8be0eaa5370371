"""Options of DeepFM."""

from deep_interest.models.configs.base import UnfilteredConfig


class DeepFMConfig(UnfilteredConfig):
    """Options of DeepFM: those of BaseModel.

    Attributes:
        own_dim: not an option, since inner products need fields of one width.
    """

    own_dim: None = None
