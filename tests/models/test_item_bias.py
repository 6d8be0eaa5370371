"""The option `item_bias`: a weight per item id on the logit of every deep model."""

import pytest
import torch
from support.batches import SCHEMA, random_batch

from deep_interest.errors import InputError
from deep_interest.models.config import DeepConfig
from deep_interest.models.registry import MODELS, build_model, model_config

SMALL = {"embedding_dim": 4, "hidden": (5, 4), "attention_hidden": (6, 3)}
DEEP = [
    key
    for key in {row.path: key for key, row in reversed(MODELS.items())}.values()
    if issubclass(MODELS[key].load().Config, DeepConfig)
]


def build(key, options, schema=SCHEMA):
    torch.manual_seed(0)
    return build_model(key, model_config(key, options, common=SMALL), schema).double().eval()


@pytest.mark.parametrize("key", [key for key in DEEP if key != "user_only"])
def test_the_bias_of_the_candidate_is_added_to_the_logit(key):
    batch = random_batch([3, 0, 1, 7, 2])
    plain, biased = build(key, {}), build(key, {"item_bias": True})
    missing, unexpected = biased.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, unexpected) == (["item_bias.weight"], [])
    expected = plain(batch).logits
    torch.testing.assert_close(biased(batch).logits, expected)
    bias = torch.linspace(-2, 2, 13, dtype=torch.float64)
    biased.item_bias.weight.data[:, 0] = bias
    torch.testing.assert_close(biased(batch).logits, expected + bias[batch.candidate["item_id"].long()])


def test_no_model_has_an_item_bias_by_default():
    for key in DEEP:
        assert not any("item_bias" in name for name in build(key, {}).state_dict())


def test_user_only_never_sees_the_candidate():
    assert not any("item_bias" in name for name in build("user_only", {"item_bias": True}).state_dict())


def test_an_item_bias_needs_the_item_id():
    without = SCHEMA.without(["item_id"])
    message = "item_bias: found the item fields category, but a bias per item needs item_id; add it to features.item, or set item_bias to false"
    with pytest.raises(InputError, match=f"^{message}$"):
        build("base", {"item_bias": True}, without)


def test_the_bias_is_trained_with_a_gradient_of_the_batch_alone():
    batch = random_batch([3, 0, 1])
    model = build("base", {"item_bias": True})
    model(batch).logits.sum().backward()
    gradient = model.item_bias.weight.grad.coalesce()
    assert gradient.indices()[0].tolist() == sorted(set(batch.candidate["item_id"].tolist()))
