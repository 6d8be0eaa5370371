"""Multi-hot fields: a field's vector is its values' vectors pooled (DIN §4.1), whatever the model and the group."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from support.batches import random_batch, sharing_batches

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.batch import ValueSetLookup
from deep_interest.models.embeddings import Embeddings
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.serving.scorer import Scorer
from deep_interest.training.tensors import value_sets_on

VALUES = {"category": 6, "likes": 5, "place": 4, "tags": 4}  # codes, the unknown's included
SETS = {
    "category": [[0], [1, 2, 5], [3], [1, 4]],
    "likes": [[0], [1, 2, 3, 4], [2]],
    "place": [[0], [1, 3], [2]],
    "tags": [[0], [1, 2], [3], [1, 2, 3]],
}
SMALL = {"embedding_dim": 4, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
KINDS = {row.path: key for key, row in reversed(MODELS.items())}  # a row of each model
ROWS = [
    key for key in KINDS.values() if not MODELS[key].closed_form and key != "wide_deep"
]  # a cross has one-hot fields alone
OPTIONS = {"sim_hard": {"search_field": "item_id"}}  # it searches by a field with a single value
LENGTHS = [3, 0, 1, 7, 2]


def schema_of(pooling, *, value_sets: bool, own: bool = False) -> FeatureSchema:
    """The same fields with a code for each value, or with one for each value set; ``own`` adds tags of the behaviours alone."""

    def field(name):
        return Field(
            name=name,
            size=len(SETS[name]) if value_sets else VALUES[name],
            pooling=None if value_sets else pooling,
        )

    item = (Field(name="item_id", size=13), field("category"))
    behavior = (*item, field("tags")) if own else item
    return FeatureSchema(
        item=item, behavior=behavior, profile=(Field(name="gender", size=3), field("likes")), context=(field("place"),)
    )  # fmt: skip


def value_sets() -> dict[str, ValueSetLookup]:
    return {
        name: ValueSetLookup(
            torch.tensor(np.cumsum([0, *map(len, sets)])), torch.tensor([*chain(*sets)], dtype=torch.int32)
        )
        for name, sets in SETS.items()
    }


def membership(name: str, pooling: str) -> np.ndarray:
    """``(value sets, values)``: what each value's vector counts in each value set's."""
    matrix = np.zeros((len(SETS[name]), VALUES[name]))
    for value_set, values in enumerate(SETS[name]):
        matrix[value_set, values] = 1 / len(values) if pooling == "mean" else 1
    return matrix


def field_of(parameter: str) -> str | None:
    return next(
        (name for name in SETS if f".{name}.weight" in parameter or f"_{name}.weight" in parameter), None
    )


def models(key, pooling, dtype=torch.float64, *, own=False):
    """A model with multi-hot fields, and one with a code for each value set whose tables are pooled by hand."""
    torch.manual_seed(0)
    multi_hot, one_hot = (
        build_model(
            key,
            model_config(key, OPTIONS.get(key, {}), common=SMALL),
            schema_of(pooling, value_sets=value_sets, own=own),
        )
        .to(dtype)
        .eval()
        for value_sets in (False, True)
    )
    with torch.no_grad():
        for parameter in multi_hot.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    state = multi_hot.state_dict()
    for name, values in state.items():
        if field := field_of(name):
            state[name] = torch.tensor(membership(field, pooling) @ values.double().numpy(), dtype=dtype)
    missing = one_hot.load_state_dict(state, strict=False).missing_keys
    assert set(missing) <= {
        "own_fields.scales.tags.weight",
        "pairs.tags.weight",
    }  # one-hot fields alone scale and have pairs
    assert not any(one_hot.get_parameter(name).any() for name in missing)  # rows of 0, which change nothing
    return multi_hot, one_hot


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_vector_of_a_field_and_its_gradient_by_numpy(pooling):
    schema = schema_of(pooling, value_sets=False)
    torch.manual_seed(0)
    embeddings = Embeddings(schema, dim=3, std=1.0)
    codes = {
        "item_id": torch.tensor([1, 0, 12, 1]),
        "category": torch.tensor([1, 0, 3, 3], dtype=torch.int32),
    }
    found = embeddings(codes, schema.item, value_sets())
    weights = {name: table.weight.detach().numpy() for name, table in embeddings.tables.items()}
    matrix = membership("category", pooling)[codes["category"].numpy()]
    expected = np.concatenate([weights["item_id"][codes["item_id"]], matrix @ weights["category"]], axis=1)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5)
    upstream = torch.randn(4, 6)
    found.backward(upstream)
    gradient = embeddings.tables["category"].weight.grad.coalesce()
    assert sorted(gradient.indices()[0].tolist()) == [0, 1, 2, 4, 5]  # each touched row once, and no other
    np.testing.assert_allclose(
        gradient.to_dense().numpy(), matrix.T @ upstream.numpy()[:, 3:], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("key", "dtype"), [*((key, torch.float64) for key in ROWS), ("lr", torch.float32), ("din", torch.float32)]
)
@pytest.mark.parametrize("own", [False, True])
def test_a_model_with_multi_hot_fields_is_one_whose_value_sets_have_pooled_vectors(key, dtype, own):
    pooling = "mean" if key in ("din", "lr") else "sum"
    multi_hot, one_hot = models(key, pooling, dtype, own=own)
    batch = random_batch(LENGTHS, schema=schema_of(pooling, value_sets=True, own=own))
    batch = replace(batch, labels=batch.labels.to(dtype))
    found, expected = multi_hot(replace(batch, value_sets=value_sets())), one_hot(batch)
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 2e-3, "atol": 2e-4}
    np.testing.assert_allclose(found.logits.detach(), expected.logits.detach(), **tolerance)
    for output in (found, expected):
        (output.logits.sigmoid().sum() + (output.auxiliary_loss or 0)).backward()
    theirs = dict(one_hot.named_parameters())
    for name, parameter in multi_hot.named_parameters():
        if parameter.grad is None:
            continue
        gradient, other = (g.to_dense().double().numpy() for g in (parameter.grad, theirs[name].grad))
        field = field_of(name)
        wanted = membership(field, pooling).T @ other if field else other
        np.testing.assert_allclose(gradient, wanted, **tolerance, err_msg=name)


@pytest.mark.parametrize("key", ["din", "base", "lr"])
def test_samples_that_share_a_history_and_the_scorer_see_the_same_value_sets(key):
    multi_hot, _ = models(key, "sum")
    shared, own = sharing_batches(LENGTHS, [0, 0, 3, 3, 3, 4], schema=schema_of("sum", value_sets=True))
    logits = [multi_hot(replace(batch, value_sets=value_sets())).logits.detach() for batch in (shared, own)]
    np.testing.assert_allclose(*logits, rtol=1e-9)
    user = random_batch([5], schema=schema_of("sum", value_sets=True))
    scored = Scorer(multi_hot, value_sets=value_sets())(
        user.history, user.candidate, profile=user.profile, context=user.context
    )
    np.testing.assert_allclose(
        scored, multi_hot(replace(user, value_sets=value_sets())).logits.sigmoid().detach(), rtol=1e-9
    )
    cpu = torch.device("cpu")
    moved = Scorer(multi_hot, value_sets=value_sets_on(value_sets(), cpu), device=cpu)
    assert torch.equal(
        scored, moved(user.history, user.candidate, profile=user.profile, context=user.context)
    )
    with pytest.raises(
        InputError, match="value_sets: the value sets of the multi-hot category, likes, place are missing"
    ):
        Scorer(multi_hot)


def test_wide_and_deep_crosses_the_one_hot_fields_alone():
    schema = schema_of("sum", value_sets=False)
    model = build_model("wide_deep", model_config("wide_deep", {}, common=SMALL), schema)
    assert list(model.wide.weights) == ["item_id"]
    batch = replace(random_batch(LENGTHS, schema=schema_of("sum", value_sets=True)), value_sets=value_sets())
    assert model(batch).logits.isfinite().all()
    with pytest.raises(InputError, match="there is none; add item_id or a category to both"):
        build_model("wide_deep", model_config("wide_deep", {"without": ["item_id"]}, common=SMALL), schema)
