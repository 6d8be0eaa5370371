"""A small training problem: random users whose clicks follow the category they have seen most."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from support.batches import dense_codes

from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.multi_hot import ValueSets
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.runs import Data

ITEMS, CATEGORIES = 40, 4
TAGS = [[0], [1], [1, 2], [2, 4, 5], [3, 5]]  # by number of the experiment


def small_data(*, users: int = 60, seed: int = 0) -> Data:
    """A log of ``users`` users and six samples each; the last user validates and tests."""
    rng = np.random.default_rng(seed)
    category = np.concatenate([[0], 1 + np.arange(ITEMS) % CATEGORIES]).astype(np.int32)
    lengths = np.concatenate([[0], rng.integers(0, 15, users)])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    item_ids = rng.integers(1, ITEMS + 1, offsets[-1]).astype(np.int32)
    user = np.repeat(np.arange(1, users + 1, dtype=np.int32), 6)
    item = rng.integers(1, ITEMS + 1, len(user)).astype(np.int32)
    end = rng.integers(0, lengths[user] + 1).astype(np.int32)
    seen = [
        (category[item_ids[offsets[u] : offsets[u] + e]] == category[i]).sum()
        for u, i, e in zip(user, item, end, strict=True)
    ]
    label = (rng.random(len(user)) < np.where(np.array(seen) > 1, 0.9, 0.2)).astype(np.int8)
    split = pd.Categorical.from_codes(
        (user % 5 == 3) * 1 + (user % 5 == 4) * 2, ["train", "validation", "test"]
    )
    fields = (Field(name="item_id", size=ITEMS + 1), Field(name="category", size=CATEGORIES + 1))
    samples = pd.DataFrame(
        {"user": user, "item": item, "label": label, "time": 0, "history_end": end, "split": split}
    )
    features = FeatureTables(
        FeatureSchema(item=fields, behavior=fields),
        {"item_id": np.arange(ITEMS + 1, dtype=np.int32), "category": category},
        {},
    )
    return Data(
        BehaviorLog(offsets, {"item_id": item_ids, "category": category[item_ids]}), features, samples
    )


def with_tags(data: Data) -> Data:
    """The data with a multi-hot field of the items, which behaviours carry too."""
    tags = np.random.default_rng(0).integers(0, len(TAGS), ITEMS + 1).astype(np.int32)
    value_sets = ValueSets(np.cumsum([0, *map(len, TAGS)]), np.concatenate(TAGS).astype(np.int32))
    fields = (*data.features.schema.item, Field(name="tags", size=6, pooling="sum"))
    features = replace(
        data.features, schema=FeatureSchema(item=fields, behavior=fields), items=data.features.items | {"tags": tags},
        value_sets={"tags": value_sets},
    )  # fmt: skip
    log = replace(data.log, fields=data.log.fields | {"tags": tags[data.log.fields["item_id"]]})
    return replace(data, log=log, features=features)


def with_prices(data: Data) -> Data:
    """The data with dense fields: a price of the items, which behaviours carry too, and a dwell time of each behaviour."""
    rng = np.random.default_rng(0)
    prices, dwell = dense_codes(rng, ITEMS + 1), dense_codes(rng, len(data.log.fields["item_id"]))
    price = Field(name="price", size=2, dense=True)
    item = (*data.features.schema.item, price)
    schema = FeatureSchema(item=item, behavior=(*item, Field(name="dwell", size=2, dense=True)))
    features = replace(data.features, schema=schema, items=data.features.items | {"price": prices})
    fields = data.log.fields | {"price": prices[data.log.fields["item_id"]], "dwell": dwell}
    return replace(data, log=replace(data.log, fields=fields), features=features)


def sample_set(data: Data, split: str = "train", *, max_len: int = 100, device: str = "cpu") -> SampleSet:
    """One split of the data."""
    store = FeatureStore.build(data.log, data.features, torch.device(device))
    return SampleSet.build(store, data.samples, split, max_len=max_len)
