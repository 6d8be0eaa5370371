"""The option `match_counts`: how often the history has the candidate's item, category, …"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.batches import OWN_SCHEMA, SCHEMA, random_batch, sharing_batches

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field, Sequence
from deep_interest.models.config import DeepConfig
from deep_interest.models.match_counts import MatchCounts
from deep_interest.models.registry import MODELS, build_model, model_config

SMALL = {"embedding_dim": 4, "hidden": (5, 4), "attention_hidden": (6, 3)}
DEEP = [
    key
    for key in {row.path: key for key, row in reversed(MODELS.items())}.values()
    if issubclass(MODELS[key].load().Config, DeepConfig) and key != "user_only"
]


def build(key, options, schema=SCHEMA):
    torch.manual_seed(0)
    return build_model(key, model_config(key, options, common=SMALL), schema).double().eval()


def counts_in_numpy(module, batch, schema, weights):
    """log(1 + weighted number of matches), sample by sample and behaviour by behaviour."""
    rows = []
    for b in range(batch.size):
        begin, end = int(batch.offsets[b]), int(batch.offsets[b + 1])
        row = []
        for field in ("item_id", "category"):
            wanted, sums = int(batch.candidate[field][b]), np.zeros(8 if weights else 4)
            for j in range(begin, end):
                if wanted == 0 or int(batch.history[field][j]) != wanted:
                    continue
                age = end - 1 - j
                sums[:4] += [1, age < 1, age < 5, age < 20]
                if weights:
                    factors = [
                        2 / (1 + np.exp(-table[int(batch.history[own][j])])) for own, table in weights.items()
                    ]
                    sums[4:] += np.prod(factors, axis=0)
            row.extend(np.log(1 + sums))
        rows.append(row)
    return np.array(rows)


def test_counts_of_a_small_history_by_hand():
    schema = FeatureSchema(item=(Field(name="category", size=5),), behavior=(Field(name="category", size=5),))
    batch = random_batch([7, 0], schema=schema)
    batch.history["category"] = torch.tensor([3, 3, 1, 3, 2, 2, 3], dtype=torch.int32)
    batch.candidate["category"] = torch.tensor([3, 3], dtype=torch.int32)
    found = MatchCounts(schema)(batch)
    expected = [[np.log(5), np.log(2), np.log(3), np.log(5)], [0, 0, 0, 0]]  # all, newest 1, 5, 20
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("schema", [SCHEMA, OWN_SCHEMA], ids=["items only", "own fields"])
def test_counts_equal_those_of_a_loop_in_numpy(schema):
    torch.manual_seed(3)
    module, batch = MatchCounts(schema).double(), random_batch([30, 0, 1, 55, 7], schema=schema)
    weights = {name: table.weight.detach().numpy() for name, table in module.log_weights.items()}
    assert set(weights) == {field.name for field in schema.own}
    expected = counts_in_numpy(module, batch, schema, weights)
    assert (expected > 0).any()
    np.testing.assert_allclose(module(batch).detach().numpy(), expected, rtol=1e-6)
    assert module.width == expected.shape[1]


def test_the_unknown_code_matches_nothing():
    batch = random_batch([4])
    for name in ("item_id", "category"):
        batch.history[name].zero_()
        batch.candidate[name].zero_()
    assert not MatchCounts(SCHEMA)(batch).any()


def test_at_most_the_newest_128_matches_count():
    batch = random_batch([200])
    for name in ("item_id", "category"):
        batch.history[name].fill_(2)
        batch.candidate[name].fill_(2)
    torch.testing.assert_close(MatchCounts(SCHEMA)(batch)[0, 0], torch.tensor(129.0).log())


def test_samples_that_share_a_history_count_as_those_with_a_copy():
    shared, copies = sharing_batches([30, 0, 8], [0, 0, 1, 2, 2], schema=OWN_SCHEMA)
    module = MatchCounts(OWN_SCHEMA)
    assert torch.equal(module(shared), module(copies))


def test_each_further_sequence_has_counts_of_its_own():
    purchases = Sequence(behavior=(Field(name="category", size=5), Field(name="price", size=4)))
    schema = SCHEMA.model_copy(update={"sequences": {"purchases": purchases}})
    batch = random_batch([9, 2])
    of_purchases = random_batch([1, 3], schema=schema.of_sequence("purchases"), seed=1)
    of_purchases = replace(of_purchases, candidate=batch.candidate)
    batch = replace(batch, sequences={"purchases": of_purchases})
    module = MatchCounts(schema)
    assert module.width == 4 + 4 + 8
    found = module(batch)
    torch.testing.assert_close(found[:, :8], MatchCounts(SCHEMA)(batch))
    matches = [
        sum(
            int(of_purchases.history["category"][j]) == int(batch.candidate["category"][b]) != 0
            for j in range(int(of_purchases.offsets[b]), int(of_purchases.offsets[b + 1]))
        )
        for b in range(2)
    ]
    np.testing.assert_allclose(found[:, 8].detach().numpy(), np.log1p(matches), rtol=1e-6)


@pytest.mark.parametrize("key", DEEP)
def test_every_deep_model_trains_on_counts_and_none_by_default(key):
    batch = random_batch([30, 0, 8], schema=OWN_SCHEMA)
    model = build(key, {"match_counts": True}, OWN_SCHEMA)
    model(batch).logits.sum().backward()
    tables = model.match_counts.log_weights.values()
    assert all(table.weight.grad.coalesce().values().abs().sum() > 0 for table in tables)
    assert not any("match_counts" in name for name in build(key, {}, OWN_SCHEMA).state_dict())


def test_user_only_never_counts_matches_with_the_candidate():
    assert build("user_only", {"match_counts": True}).match_counts is None


def test_counts_need_a_field_that_can_match():
    tags = Field(name="tags", size=4, pooling="mean")
    schema = FeatureSchema(item=(tags,), behavior=(tags,))
    with pytest.raises(
        InputError, match=r"^match_counts: behaviours share no one-hot field with the candidate"
    ):
        build("base", {"match_counts": True}, schema)
