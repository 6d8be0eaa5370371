"""The option `interest_product`: the product of the history's vector and the candidate, as in the code of DIN's authors."""

import numpy as np
import pytest
import torch
from support.batches import OWN_SCHEMA, SCHEMA, random_batch
from support.exported import EVERY_KIND, random_model
from support.one_user import random_request

from deep_interest.errors import InputError
from deep_interest.export.logits import logits
from deep_interest.export.request import Request
from deep_interest.logs.schema import FeatureSchema
from deep_interest.models.config import OneInterestConfig
from deep_interest.models.registry import MODELS, build_model, model_config

SMALL = {"embedding_dim": 4, "own_dim": 3, "hidden": (5, 4), "attention_hidden": (6, 3)}
WITH_OPTION = [
    key
    for key in {row.path: key for key, row in reversed(MODELS.items())}.values()
    if issubclass(MODELS[key].load().Config, OneInterestConfig) and key != "user_only"
]
REVERSED = OWN_SCHEMA.model_copy(update={"behavior": (*OWN_SCHEMA.behavior[1::-1], *OWN_SCHEMA.behavior[2:])})


def build(key, options, schema=SCHEMA):
    torch.manual_seed(0)
    return build_model(key, model_config(key, options, common=SMALL), schema).double()


def test_the_option_is_for_models_with_one_interest():
    paths = {MODELS[key].path for key in WITH_OPTION}
    assert {MODELS[key].path for key in ("base", "pnn", "din", "dien")} <= paths
    assert not {MODELS[key].path for key in ("bst", "dmin", "sim_hard", "eta", "lstm")} & paths


@pytest.mark.parametrize(
    "schema", [SCHEMA, OWN_SCHEMA, REVERSED], ids=["shared", "own fields", "other order"]
)
@pytest.mark.parametrize("key", ["base", "din", "dien"])
def test_the_mlp_also_has_the_product_of_interest_and_candidate(key, schema):
    model, batch = build(key, {"interest_product": True}, schema), random_batch([3, 0, 7], schema=schema)
    features = model.features(batch)[0]
    interest = features[:, : model.interest_width].detach().numpy()
    tables = model.embeddings.tables
    candidate = [
        tables[field.name].weight.detach().numpy()[batch.candidate[field.name]] for field in schema.shared
    ]
    product = interest[:, : 2 * 4] * np.concatenate(candidate, axis=1)
    assert np.abs(product[0]).max() > 0
    inputs = torch.cat([features, torch.tensor(product)], dim=1)
    torch.testing.assert_close(model(batch).logits, model.mlp(inputs).squeeze(1))


@pytest.mark.parametrize("key", [key for key in WITH_OPTION if key != "dien_light"])
def test_every_model_with_the_option_learns_weights_of_the_product(key):
    model, batch = build(key, {"interest_product": True}), random_batch([3, 5, 7])
    assert model.mlp.inputs == build(key, {}).mlp.inputs + 8  # two shared fields of width 4
    model.train()(batch).logits.sum().backward()
    assert (model.mlp.layers[0].weight.grad[:, -8:] != 0).any(dim=0).all()


def test_the_narrow_light_net_of_a_light_dien_has_no_product():
    model = build("dien_light", {"interest_product": True})
    assert model.product is None
    assert model.booster.product is not None


def test_the_product_of_a_further_sequence_is_left_out():
    with_option, plain = (build("din", {"interest_product": on}, EVERY_KIND) for on in (True, False))
    assert with_option.mlp.inputs - plain.mlp.inputs == len(EVERY_KIND.shared) * 4
    assert with_option.sequence_models["purchases"].product is None


def test_user_only_never_sees_the_candidate():
    assert build("user_only", {"interest_product": True}).product is None


def test_narrow_states_have_no_product():
    with pytest.raises(
        InputError, match=r"^interest_product: found a history's vector of width 5, .* 8; .*gru_size$"
    ):
        build("dien", {"interest_product": True, "gru_size": 5})


def test_a_product_needs_fields_that_behaviours_and_candidate_share():
    schema = FeatureSchema(item=SCHEMA.item, behavior=OWN_SCHEMA.behavior[2:])
    with pytest.raises(InputError, match=r"^features.behavior: interest_product compares"):
        build("base", {"interest_product": True}, schema)


@pytest.mark.parametrize("key", ["base", "pnn", "din", "dien"])
def test_an_exported_model_has_the_product(key):
    model = random_model(key, EVERY_KIND, interest_product=True).double()
    for length in (0, 1, 6):
        inputs, batch = random_request(model.schema, length, 3, seed=length)
        with torch.inference_mode():
            expected, found = model(batch).logits, logits(model, Request(inputs, model.schema))
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
