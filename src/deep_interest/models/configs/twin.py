"""Options of TWIN."""

from typing import Literal

from pydantic import Field

from deep_interest.models.configs.long_history import LongHistoryConfig


class TWINConfig(LongHistoryConfig):
    """Options of TWIN.

    Attributes:
        search_length: most behaviours that the search selects (the paper's is 100).
        own_fields: their embeddings are concatenated, see `SplitAttention`.
        own_dim: not an option, since own fields are compressed by vectors of one width.
    """

    search_length: int = Field(100, ge=1)
    own_fields: Literal["concat"] = "concat"
    own_dim: None = None
