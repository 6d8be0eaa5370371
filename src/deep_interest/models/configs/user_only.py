"""Options of UserOnly."""

from deep_interest.models.configs.base import BaseModelConfig


class UserOnlyConfig(BaseModelConfig):
    """Options of UserOnly: those of BaseModel."""
