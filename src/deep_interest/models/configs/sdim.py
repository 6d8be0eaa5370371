"""Options of SDIM."""

from typing import Literal

from pydantic import Field, model_validator

from deep_interest.models.configs.long_history import ShortConfig
from deep_interest.ops.limits import MAX_BITS


class SDIMConfig(ShortConfig):
    """Options of SDIM.

    Attributes:
        hash_rounds: number of rounds of hashing, m / τ (the paper's m is 48).
        bucket_bits: bits of a bucket, τ (the paper's is 3).
        own_fields: their embeddings are concatenated, so that the sum of a bucket is that of each field.
    """

    hash_rounds: int = Field(16, ge=1)
    bucket_bits: int = Field(3, ge=1)
    own_fields: Literal["concat"] = "concat"

    @model_validator(mode="after")
    def _fingerprint_fits(self) -> "SDIMConfig":
        if self.hash_rounds * self.bucket_bits > MAX_BITS:
            raise ValueError(
                f"hash_rounds × bucket_bits is {self.hash_rounds * self.bucket_bits}, expected at most {MAX_BITS}, the bits of a "
                "fingerprint; reduce one of them"
            )
        return self
