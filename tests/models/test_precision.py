"""DIN with products in bfloat16: close to float32 where it scores, unchanged where it is trained."""

import copy

import numpy as np
import pytest
import torch
from support.batches import SCHEMA, random_batch

from deep_interest.errors import InputError
from deep_interest.models.config import Precision
from deep_interest.models.precision import reduce_precision
from deep_interest.models.registry import build_model, model_config

BFLOAT16 = Precision(attention="bfloat16")


def model_of(key, **options):
    torch.manual_seed(1)
    common = {"embedding_dim": 8, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (20, 6)}
    return build_model(key, model_config(key, options, common=common), SCHEMA).eval()


@pytest.mark.parametrize("key", ["din", "din_softmax", "din_light"])
def test_scores_in_bfloat16_are_close_to_those_in_float32(key):
    model = model_of(key)
    for part in getattr(model, "training_only", ()):
        setattr(model, part, None)
    reduced, batch = copy.deepcopy(model), random_batch([3, 0, 7, 40])
    assert reduce_precision(reduced, BFLOAT16) == {}
    with torch.inference_mode():
        expected, found = model(batch).logits, reduced(batch).logits
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.05)
    assert not np.array_equal(found, expected)


def test_a_model_with_gradients_multiplies_in_float32():
    model, batch = model_of("din"), random_batch([3, 0, 7, 40])
    expected = model(batch).logits
    reduce_precision(model, BFLOAT16)
    np.testing.assert_array_equal(model(batch).logits.detach(), expected.detach())


@pytest.mark.parametrize("key", ["base", "dien", "fm"])
def test_models_without_such_an_activation_unit_are_refused(key):
    with pytest.raises(InputError, match="has no activation unit with two hidden layers of PReLU or ReLU"):
        reduce_precision(model_of(key), BFLOAT16)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        (Precision(), "float32"),
        (Precision(tables="int8"), "int8 tables"),
        (Precision(tables="float16", attention="bfloat16"), "float16 tables and bfloat16 attention"),
    ],
)
def test_a_precision_is_named(precision, expected):
    assert str(precision) == expected
    assert precision.is_reduced == (expected != "float32")
