"""Random jagged batches."""

from dataclasses import replace

import numpy as np
import torch

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.batch import Batch

ITEM = (Field(name="item_id", size=13), Field(name="category", size=5))
SCHEMA = FeatureSchema(
    item=ITEM, behavior=ITEM, profile=(Field(name="gender", size=3),), context=(Field(name="hour", size=4),)
)
PLAIN_SCHEMA = FeatureSchema(item=ITEM, behavior=ITEM)
OWN_SCHEMA = SCHEMA.model_copy(
    update={"behavior": (*ITEM, Field(name="rating", size=6), Field(name="gap", size=9, derived=True))}
)
PRICE, DWELL, AGE, BID = (Field(name=name, size=2, dense=True) for name in ("price", "dwell", "age", "bid"))
DENSE_SCHEMA = FeatureSchema(
    item=(*ITEM, PRICE), behavior=(*ITEM, PRICE, Field(name="rating", size=6), DWELL), profile=(*SCHEMA.profile, AGE),
    context=(BID, *SCHEMA.context),
)  # fmt: skip
"""A dense field in each group: shared by item and behaviours, of a behaviour itself, of profile and of context."""


def random_batch(lengths: list[int], *, schema: FeatureSchema = SCHEMA, seed: int = 0) -> Batch:
    """A batch whose sample b has ``lengths[b]`` behaviours."""
    rng = np.random.default_rng(seed)

    def codes(fields, n):
        return {
            f.name: torch.tensor(
                dense_codes(rng, n) if f.dense else rng.integers(0, f.size, n), dtype=torch.int32
            )
            for f in fields
        }

    size, total = len(lengths), sum(lengths)
    return Batch(
        candidate=codes(schema.item, size), history=codes(schema.behavior, total),
        offsets=torch.tensor(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)),
        profile=codes(schema.profile, size), context=codes(schema.context, size),
        labels=torch.tensor(rng.integers(0, 2, size), dtype=torch.float64), negatives=codes(schema.shared, total),
    )  # fmt: skip


def dense_codes(rng: np.random.Generator, n: int) -> np.ndarray:
    """Codes of n numbers from a standard normal distribution, a quarter of them missing."""
    codes = 1 + np.rint((rng.normal(size=n) + 8) * 4096)
    return np.where(rng.random(n) < 0.25, 0, codes).astype(np.int32)


def take(batch: Batch, samples: list[int]) -> Batch:
    """The batch of some samples of another, in the order given."""
    pick = torch.tensor(samples)
    spans = [torch.arange(int(batch.offsets[s]), int(batch.offsets[s + 1])) for s in samples]
    rows = torch.cat(spans) if spans else torch.arange(0)
    lengths = [len(span) for span in spans]
    return Batch(
        candidate={k: v[pick] for k, v in batch.candidate.items()}, history={k: v[rows] for k, v in batch.history.items()},
        offsets=torch.tensor(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)),
        profile={k: v[pick] for k, v in batch.profile.items()}, context={k: v[pick] for k, v in batch.context.items()},
        labels=batch.labels[pick], negatives={k: v[rows] for k, v in batch.negatives.items()},
    )  # fmt: skip


def sharing_batches(
    lengths: list[int], owner: list[int], *, schema: FeatureSchema = SCHEMA
) -> tuple[Batch, Batch]:
    """Samples that share histories, and the same ones each with a copy of its own."""
    histories = random_batch(lengths, schema=schema)
    samples = random_batch([0] * len(owner), schema=schema, seed=1)
    own = take(histories, owner)
    own = replace(samples, history=own.history, offsets=own.offsets, negatives=own.negatives)
    shared = replace(
        samples, history=histories.history, offsets=histories.offsets, negatives=histories.negatives, owner=torch.tensor(owner)
    )  # fmt: skip
    return shared, own
