"""Options of ASVD."""

from pydantic import Field

from deep_interest.models.config import ModelConfig


class ASVDConfig(ModelConfig):
    """Options of ASVD.

    Attributes:
        embedding_dim: width of every factor.
        embedding_std: standard deviation of the initial factors.
    """

    embedding_dim: int = Field(32, ge=1)
    embedding_std: float = Field(0.1, gt=0)
