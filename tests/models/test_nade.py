"""CF-NADE against its equation in NumPy, one sample at a time."""

import numpy as np
import pytest
import torch
from support.batches import ITEM, random_batch, sharing_batches

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.registry import build_model, model_config

PROFILE, CONTEXT = (Field(name="gender", size=3),), (Field(name="hour", size=4),)
OWN = (Field(name="rating", size=6), Field(name="action", size=4))
WITH_OWN = FeatureSchema(item=ITEM, behavior=(*ITEM, *OWN), profile=PROFILE, context=CONTEXT)
LENGTHS = [3, 0, 1, 7, 2]
ACTIVATIONS = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}


def build(schema, activation="tanh", **options):
    torch.manual_seed(0)
    options = {"width": 5, "hidden_activation": activation, **options}
    model = build_model("nade", model_config("nade", options), schema).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def table(tables, name):
    return tables[name].weight.detach().numpy()


def reference(model, batch, schema, activation):
    """The equation of the docstring, with one loop over samples and one over behaviours."""
    logits, offsets = [], batch.offsets.tolist()
    shared = [f.name for f in schema.behavior if f in schema.item]
    own = [f for f in schema.behavior if f in OWN]
    item = "item_id" if "item_id" in shared else shared[0]
    for b in range(batch.size):
        logit = model.bias.item()
        for group, codes in (
            ("item", batch.candidate),
            ("profile", batch.profile),
            ("context", batch.context),
        ):
            for field in schema.fields(group):
                logit += table(model.biases[group], field.name)[codes[field.name][b], 0]
        total, n = np.zeros(5), offsets[b + 1] - offsets[b]
        for j in range(offsets[b], offsets[b + 1]):
            for name in shared:
                total = total + table(model.behaviors, name)[batch.history[name][j]]
            for field in own:
                vectors = table(model.pairs, field.name).reshape(-1, field.size, 5)
                total = total + vectors[batch.history[item][j], batch.history[field.name][j]]
        hidden = ACTIVATIONS[activation](model.offset.detach().numpy() + total / np.sqrt(max(n, 1)))
        candidate = sum(table(model.candidates, f.name)[batch.candidate[f.name][b]] for f in schema.item)
        logits.append(logit + candidate @ hidden)
    return np.array(logits)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "schema",
    [
        WITH_OWN,
        FeatureSchema(item=ITEM, behavior=ITEM, profile=PROFILE, context=CONTEXT),
        FeatureSchema(item=ITEM, behavior=(ITEM[1], OWN[0])),
    ],
    ids=["own fields", "no own fields", "behaviours without item ids"],
)
@pytest.mark.parametrize("with_gradients", [True, False])
def test_the_logit_is_the_equations(schema, activation, with_gradients):
    model, batch = build(schema, activation), random_batch(LENGTHS, schema=schema)
    with torch.set_grad_enabled(with_gradients):
        logits = model(batch).logits
    np.testing.assert_allclose(
        logits.detach().numpy(), reference(model, batch, schema, activation), rtol=1e-9
    )


def test_the_order_of_the_behaviours_does_not_matter():
    model, batch = build(WITH_OWN), random_batch([6], schema=WITH_OWN)
    expected = model(batch).logits
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    batch.history = {name: codes[order] for name, codes in batch.history.items()}
    torch.testing.assert_close(model(batch).logits, expected)


def test_the_same_items_with_other_outcomes_give_another_logit():
    model, batch = build(WITH_OWN), random_batch([2], schema=WITH_OWN)
    logits = []
    for ratings in ([5, 1], [1, 5]):
        batch.history = batch.history | {"rating": torch.tensor(ratings, dtype=torch.int32)}
        logits.append(model(batch).logits.item())
    assert abs(logits[0] - logits[1]) > 1e-3


def test_samples_may_share_a_history():
    model = build(WITH_OWN)
    shared, own = sharing_batches(LENGTHS, [0, 0, 1, 3, 4], schema=WITH_OWN)
    torch.testing.assert_close(model(shared).logits, model(own).logits)


def test_dropout_acts_in_training_only():
    model, batch = build(WITH_OWN, dropout=0.5), random_batch(LENGTHS, schema=WITH_OWN)
    model.train()
    assert not torch.equal(model(batch).logits, model(batch).logits)
    model.eval()
    assert torch.equal(model(batch).logits, model(batch).logits)
    np.testing.assert_allclose(
        model(batch).logits.detach().numpy(), reference(model, batch, WITH_OWN, "tanh"), rtol=1e-9
    )


@pytest.mark.parametrize("with_gradients", [True, False])
def test_a_code_of_an_own_field_outside_its_table_is_named(with_gradients):
    model, batch = build(WITH_OWN), random_batch([2], schema=WITH_OWN)
    batch.history = batch.history | {"action": torch.tensor([1, 4], dtype=torch.int32)}
    with (
        torch.set_grad_enabled(with_gradients),
        pytest.raises(InputError, match="action: code 4 at position 1"),
    ):
        model(batch)


def test_an_own_field_with_many_codes_has_no_pairs():
    own = (Field(name="rating", size=6), Field(name="minute", size=65))
    model = build(FeatureSchema(item=ITEM, behavior=(*ITEM, *own)))
    assert list(model.pairs) == ["rating"]
    assert model.pairs["rating"].weight.shape == (13 * 6, 5)
