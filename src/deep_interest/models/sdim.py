"""SDIM: the behaviours that share a hash bucket with the candidate, in several rounds (Cao et al. 2022)."""

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.base import EmbeddingMLP, Interest, SameFields
from deep_interest.models.batch import Batch
from deep_interest.models.long_history import ShortConfig, ShortInterest, width_of
from deep_interest.ops.buckets import bucket_sums
from deep_interest.ops.search import MAX_BITS, sim_hash


class SDIMConfig(ShortConfig):
    """Options of SDIM.

    Attributes:
        hash_rounds: number of rounds of hashing, m / τ (the paper's m is 48).
        bucket_bits: bits of a bucket, τ (the paper's is 3).
    """

    hash_rounds: int = Field(16, ge=1)
    bucket_bits: int = Field(3, ge=1)

    @model_validator(mode="after")
    def _fingerprint_fits(self) -> "SDIMConfig":
        if self.hash_rounds * self.bucket_bits > MAX_BITS:
            raise ValueError(
                f"hash_rounds × bucket_bits is {self.hash_rounds * self.bucket_bits}, expected at most {MAX_BITS}, the bits of a "
                "fingerprint; reduce one of them"
            )
        return self


class SDIM(EmbeddingMLP):
    """``1/R Σ_r ℓ2(Σ_j [bucket_r(e_j) = bucket_r(v_A)] e_j)`` over R rounds of hashing (eq. 11, 12).

    A bucket is the signs of the products with τ random planes, so that a behaviour shares it with probability
    ``(1 - angle / π)^τ``: the expectation is an attention without parameters. Fingerprints are computed once per history.
    """

    Config = SDIMConfig
    planes: Tensor

    def __init__(self, config: SDIMConfig, schema: FeatureSchema) -> None:
        width = width_of(config, schema)
        super().__init__(config, schema, interest_width=width * (2 if config.short_length else 1))
        self.same_fields = SameFields(schema, config.embedding_dim, self.shared_width, model="SDIM")
        self.rounds, self.bits = config.hash_rounds, config.bucket_bits
        self.short_length = config.short_length
        self.short = ShortInterest(config, schema, width, model="SDIM") if config.short_length else None
        self.register_buffer("planes", torch.randn(self.shared_width, self.rounds * self.bits))

    def represent(self, history: Tensor, candidate: Tensor, batch: Batch) -> Interest:
        assert batch.shared_vectors is not None
        fingerprints = self._hash(batch.shared_vectors), self._hash(self.same_fields(candidate))
        sums = bucket_sums(history, *fingerprints, batch.pairs, rounds=self.rounds, bits=self.bits)
        long = F.normalize(sums, dim=2).mean(1)
        if self.short is None:
            return Interest(long)
        short = self.short(history, candidate, batch.newest(self.short_length))
        return Interest(torch.cat([long, short], dim=1))

    def _hash(self, vectors: Tensor) -> Tensor:
        """Return the fingerprint of each vector. Shape: ``(n, shared_width) -> (n,)``."""
        return sim_hash([(vectors, torch.arange(len(vectors), device=vectors.device))], self.planes)
