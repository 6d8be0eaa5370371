"""Options of ETA."""

from typing import Literal

from pydantic import Field

from deep_interest.models.configs.long_history import LongHistoryConfig
from deep_interest.ops.limits import MAX_BITS


class ETAConfig(LongHistoryConfig):
    """Options of ETA.

    Attributes:
        short_attention: as in the paper, ``target``.
        hash_bits: number of random planes, and thus of bits of a fingerprint.
    """

    short_attention: Literal["din", "target"] = "target"
    hash_bits: int = Field(32, ge=1, le=MAX_BITS)
