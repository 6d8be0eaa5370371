"""Options of BaseModel."""

from typing import Literal

from deep_interest.logs.schema import Pooling
from deep_interest.models.config import OneInterestConfig


class BaseModelConfig(OneInterestConfig):
    """Options of BaseModel.

    Attributes:
        pooling: pooling of the behaviour vectors, eq. 1: ``sum`` (both papers) or ``mean``.
    """

    pooling: Pooling = "sum"


class UnfilteredConfig(BaseModelConfig):
    """Options of a BaseModel with additional weights per id, which `keep_top` would not filter."""

    keep_top: Literal[0] = 0
