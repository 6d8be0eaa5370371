"""The option `own_dim`: width of the embeddings of the fields that only a behaviour has."""

from dataclasses import replace

import pytest
import torch
from support.batches import OWN_SCHEMA, SCHEMA, random_batch

from deep_interest.logs.schema import Field, Sequence
from deep_interest.models.config import DeepConfig
from deep_interest.models.layers import MLP
from deep_interest.models.registry import MODELS, build_model, model_config, stored_config

SMALL = {"embedding_dim": 12, "hidden": (5, 4), "attention_hidden": (6, 3), "heads": 2}
DEEP = [
    key
    for key in {row.path: key for key, row in reversed(MODELS.items())}.values()
    if issubclass(MODELS[key].load().Config, DeepConfig)
]
EQUAL = ("pnn", "deepfm", "twin")  # which need fields of one width


def build(key, schema, **options):
    torch.manual_seed(0)
    return build_model(key, model_config(key, {}, common=SMALL | options), schema)


@pytest.mark.parametrize("key", DEEP)
def test_own_fields_are_narrow_unless_a_model_needs_one_width(key):
    tables = build(key, OWN_SCHEMA).embeddings.tables
    assert tables["item_id"].embedding_dim == 12
    assert tables["rating"].embedding_dim == (12 if key.startswith(EQUAL) else 8)
    assert build(key, OWN_SCHEMA, own_dim=None).embeddings.tables["rating"].embedding_dim == 12


def test_a_narrow_model_has_no_wider_own_fields():
    assert build("din", OWN_SCHEMA, embedding_dim=4).embeddings.tables["rating"].embedding_dim == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("key", DEEP)
def test_a_field_of_behaviours_and_of_the_context_has_one_table_of_full_width(key, dtype):
    hour = Field(name="hour", size=4)
    views = Sequence(behavior=(*SCHEMA.item, hour, Field(name="action", size=3)))
    behavior = (*SCHEMA.item, hour, Field(name="rating", size=6))
    schema = SCHEMA.model_copy(update={"behavior": behavior, "sequences": {"views": views}})
    batch = random_batch([9, 0, 30], schema=schema)
    of_views = random_batch([2, 4, 0], schema=schema.of_sequence("views"), seed=1)
    batch = replace(batch, sequences={"views": replace(of_views, candidate=batch.candidate)})
    model = build(key, schema).to(dtype).eval()
    logits = model(batch).logits
    assert torch.equal(logits, model(batch).logits)
    logits.sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        values = (
            None if gradient is None else gradient.coalesce().values() if gradient.is_sparse else gradient
        )
        assert values is None or values.isfinite().all(), name
    assert (logits.abs() < 100).all()


def test_an_mlp_refuses_an_input_of_another_width():
    with pytest.raises(ValueError, match=r"^expected an input of width 3, found 4$"):
        MLP(3, (2,))(torch.zeros(1, 4))


def test_options_stored_before_the_option_existed_mean_equal_widths():
    stored = model_config("din", {}).model_dump(mode="json")
    assert stored_config("din", stored).own_dim == 8
    del stored["own_dim"]
    assert stored_config("din", stored).own_dim is None
    assert stored_config("lr", {}) == model_config("lr", {})


def test_a_recipe_may_set_the_width_for_all_models():
    assert model_config("din", {}, common={"own_dim": 4}).own_dim == 4
    assert model_config("pnn", {}, common={"own_dim": 4}).own_dim is None
