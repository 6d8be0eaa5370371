"""An Amazon-shaped training set for the speed benchmarks: 63,001 items, 801 categories, 100,000 users."""

import numpy as np
import torch

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.history import LogTensors

ITEMS, CATEGORIES, USERS, MAX_LEN = 63_001, 801, 100_000, 100


def amazon_shaped(samples: int, *, full: bool = False, seed: int = 0, device: str = "cpu") -> SampleSet:
    """Samples whose histories have a mean of 9 and a maximum of 100 behaviours, or are all 100 long.

    Args:
        samples: how many.
        full: every history is 100 long.
        seed: of everything drawn.
        device: where the set lives.
    """
    rng = np.random.default_rng(seed)
    category = np.concatenate([[0], rng.permutation(_long_tail(CATEGORIES, 0.9, ITEMS, rng))]).astype(
        np.int32
    )
    log = _long_tail(ITEMS, 0.75, USERS * MAX_LEN, rng).astype(np.int32)
    user = rng.integers(1, USERS + 1, samples)
    lengths = np.clip(np.round(rng.lognormal(1.73, 0.97, samples)), 1, MAX_LEN).astype(int)
    item = _long_tail(ITEMS, 0.75, samples, rng)
    schema = FeatureSchema(
        item=(Field(name="item_id", size=ITEMS + 1), Field(name="category", size=CATEGORIES + 1)),
        behavior=(Field(name="item_id", size=ITEMS + 1), Field(name="category", size=CATEGORIES + 1)),
    )
    offsets = np.concatenate([[0], np.arange(USERS + 1) * MAX_LEN])
    tensor = lambda array, kind=torch.int32: torch.as_tensor(array, dtype=kind, device=device)  # noqa: E731
    item_ids = tensor(np.arange(ITEMS + 1))
    store = FeatureStore(
        schema,
        LogTensors(tensor(offsets, torch.int64), {"item_id": tensor(log), "category": tensor(category[log])}),
        {"item_id": item_ids, "category": tensor(category)},
        {},
    )
    end = np.full(samples, MAX_LEN) if full else lengths
    labels = rng.random(samples) < np.where(category[item] % 3 == 0, 0.65, 0.4)
    return SampleSet(
        store, MAX_LEN, tensor(user), tensor(item), tensor(end), tensor(labels, torch.float32), {}
    )


def _long_tail(size: int, exponent: float, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Ids 1 … size drawn with probability proportional to rank to the power of ``-exponent``."""
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    cumulative = np.cumsum(weights[rng.permutation(size)])
    return np.minimum(np.searchsorted(cumulative, rng.random(draws) * cumulative[-1]), size - 1) + 1
