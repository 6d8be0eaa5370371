"""Options of FM."""

from deep_interest.logs.schema import Pooling
from deep_interest.models.config import ModelConfig, OwnFieldsOption


class FMConfig(ModelConfig):
    """Options of FM.

    Attributes:
        embedding_dim: width of every embedding table.
        embedding_std: standard deviation of the initial embeddings.
        pooling: pooling of the behaviour vectors.
        own_fields: how the fields that only a behaviour has enter its vector, see `DeepConfig`.
    """

    embedding_dim: int = 18
    embedding_std: float = 0.01
    pooling: Pooling = "sum"
    own_fields: OwnFieldsOption = "both"
