"""Models whose tables are in half precision or int8 score as models whose tables were rounded by hand."""

import copy

import numpy as np
import pytest
import torch
from support import reference
from support.batches import DENSE_SCHEMA, OWN_SCHEMA, SCHEMA, random_batch

from deep_interest.errors import InputError
from deep_interest.experiments import RETRAINABLE
from deep_interest.models.embeddings import Table
from deep_interest.models.packed_tables import memory_of_tables, pack_tables, unpack_tables
from deep_interest.models.registry import build_model, model_config

EVERY_TIME = ("din", "dien", "fm", "wide_deep", "din_light", "sim_soft", "asvd")
KEYS = [
    key if key in EVERY_TIME else pytest.param(key, marks=pytest.mark.nightly)
    for key in RETRAINABLE
    if key != "lr"
]
OPTIONS = {"embedding_dim": 6, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}


def model_of(key, schema=SCHEMA, **more):
    torch.manual_seed(1)
    model = build_model(key, model_config(key, {}, common=OPTIONS | more), schema)
    for table in model.modules():
        if isinstance(table, Table):
            torch.nn.init.normal_(table.weight)
    for part in getattr(model, "training_only", ()):
        setattr(model, part, None)
    return model.eval()


def rounded(weight, precision):
    """The rows of a table after rounding, in NumPy."""
    rows = weight.detach().numpy()
    if precision == "float16":
        return rows.astype(np.float16).astype(np.float32)
    scales = np.abs(rows).max(1, keepdims=True) / np.float32(127)
    return np.rint(rows / scales) * scales


@torch.inference_mode()
def logits(model, schema=SCHEMA):
    return model(random_batch([3, 0, 7, 12], schema=schema)).logits


def test_din_with_int8_tables_has_the_logits_of_its_equations_in_numpy():
    model, batch = model_of("din"), random_batch([3, 0, 7, 12], schema=SCHEMA)
    p = reference.parameters(model)
    for name in pack_tables(model, "int8"):
        steps = np.abs(p[f"{name}.weight"]).max(1, keepdims=True) / 127
        p[f"{name}.weight"] = np.rint(p[f"{name}.weight"] / steps) * steps
    expected = reference.din(p, batch, SCHEMA, normalize="none", difference=False)
    np.testing.assert_allclose(logits(model), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_a_models_logits_are_those_of_tables_rounded_by_hand(key):
    packed = model_of(key)
    expected = copy.deepcopy(packed)
    names = set(pack_tables(packed, "int8"))
    for name in names:
        weight = expected.get_submodule(name).weight
        weight.data = torch.from_numpy(rounded(weight, "int8"))
    np.testing.assert_allclose(logits(packed), logits(expected), rtol=1e-5, atol=1e-5)
    assert not np.array_equal(logits(packed), logits(model_of(key)))
    assert {"item_id", "category"} <= {name.rpartition(".")[2] for name in names}


@pytest.mark.parametrize("schema", [OWN_SCHEMA, DENSE_SCHEMA], ids=["own", "dense"])
@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_unpacked_tables_have_the_same_logits(schema, precision):
    model = model_of("din", schema, item_bias=True)
    pack_tables(model, precision)
    before = logits(model, schema)
    unpack_tables(model)
    assert model.embeddings.tables["item_id"].weight.dtype == torch.float32
    np.testing.assert_array_equal(logits(model, schema), before)


@pytest.mark.parametrize(("precision", "expected"), [("float32", 1.0), ("float16", 0.5), ("int8", 10 / 24)])
def test_the_memory_of_the_tables_shrinks(precision, expected):
    model = model_of("base")
    before = memory_of_tables(model)
    pack_tables(model, precision)
    assert memory_of_tables(model) == before * expected
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert held < before * expected + 4 * sum(p.numel() for p in model.mlp.parameters()) + 1


def test_small_tables_and_single_columns_stay_in_float32():
    model = model_of("din", DENSE_SCHEMA, item_bias=True)
    packed = pack_tables(model, "int8")
    assert {name.rpartition(".")[2] for name in packed} == {"item_id", "category", "rating", "gender", "hour"}
    assert model.item_bias.weight.dtype == torch.float32


def test_a_model_without_tables_that_shrink_is_refused():
    with pytest.raises(InputError, match="tables: LR has no embedding tables that become smaller in int8"):
        pack_tables(model_of("lr"), "int8")
    assert pack_tables(model_of("lr"), "float16")
