"""ASVD against its equation in NumPy, one sample at a time."""

import numpy as np
import pytest
import torch
from support.batches import ITEM, random_batch, sharing_batches

from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.registry import build_model, model_config

PROFILE, CONTEXT = (Field(name="gender", size=3),), (Field(name="hour", size=4),)
OWN = (Field(name="rating", size=6), Field(name="action", size=4))
WITH_OWN = FeatureSchema(item=ITEM, behavior=(*ITEM, *OWN), profile=PROFILE, context=CONTEXT)
LENGTHS = [3, 0, 1, 7, 2]


def build(schema):
    torch.manual_seed(0)
    model = build_model("asvd", model_config("asvd", {"embedding_dim": 4}), schema).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def table(tables, name):
    return tables[name].weight.detach().numpy()


def reference(model, batch, schema):
    """The equation of the docstring, with one loop over samples and one over behaviours."""
    logits, offsets = [], batch.offsets.tolist()
    shared, own = (
        [f.name for f in schema.behavior if f in schema.item],
        [f.name for f in schema.behavior if f in OWN],
    )
    groups = (("item", batch.candidate), ("profile", batch.profile), ("context", batch.context))
    for b in range(batch.size):
        logit = model.bias.item()
        for group, codes in groups:
            for field in schema.fields(group):
                logit += table(model.biases[group], field.name)[codes[field.name][b], 0]
        q = sum(
            table(model.factors.tables, field.name)[batch.candidate[field.name][b]] for field in schema.item
        )
        rows, n = range(offsets[b], offsets[b + 1]), offsets[b + 1] - offsets[b]
        user = sum(
            (table(model.presence, name)[batch.history[name][j]] for j in rows for name in shared),
            np.zeros(4),
        )
        if own:
            w = [
                sum(table(model.weights, name)[batch.history[name][j], 0] for name in own)
                - sum(table(model.means, name)[batch.history[name][j], 0] for name in shared)
                for j in rows
            ]
            mean = sum(w) / (n + 3)
            logit += model.of_mean.item() * mean
            for j, weight in zip(rows, w, strict=True):
                vectors = [table(model.factors.tables, name)[batch.history[name][j]] for name in shared]
                user = user + (weight - mean) * sum(vectors)
        logits.append(logit + q @ user / np.sqrt(max(n, 1)))
    return np.array(logits)


@pytest.mark.parametrize(
    "schema",
    [
        WITH_OWN,
        FeatureSchema(item=ITEM, behavior=ITEM, profile=PROFILE, context=CONTEXT),
        FeatureSchema(item=ITEM, behavior=(ITEM[1], OWN[0])),
    ],
    ids=["own fields", "no own fields", "behaviours without item ids"],
)
def test_the_logit_is_the_equations(schema):
    model, batch = build(schema), random_batch(LENGTHS, schema=schema)
    np.testing.assert_allclose(
        model(batch).logits.detach().numpy(), reference(model, batch, schema), rtol=1e-9
    )


def test_a_sample_without_behaviours_has_its_biases_alone():
    model, batch = build(WITH_OWN), random_batch([0], schema=WITH_OWN)
    expected = model.bias.item() + sum(
        table(model.biases[group], field.name)[codes[field.name][0], 0]
        for group, codes in (
            ("item", batch.candidate),
            ("profile", batch.profile),
            ("context", batch.context),
        )
        for field in WITH_OWN.fields(group)
    )
    assert model(batch).logits.item() == pytest.approx(expected)


@pytest.mark.slow
def test_the_order_of_the_behaviours_does_not_matter():
    model, batch = build(WITH_OWN), random_batch([6], schema=WITH_OWN)
    expected = model(batch).logits
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    batch.history = {name: codes[order] for name, codes in batch.history.items()}
    torch.testing.assert_close(model(batch).logits, expected)


def test_samples_may_share_a_history():
    model = build(WITH_OWN)
    shared, own = sharing_batches(LENGTHS, [0, 0, 1, 3, 4], schema=WITH_OWN)
    torch.testing.assert_close(model(shared).logits, model(own).logits)
