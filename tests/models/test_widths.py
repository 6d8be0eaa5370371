"""Widths of the layers and initial values, which no comparison of outputs can show: the papers', or those of the authors' code."""

import pytest
import torch
from support.batches import SCHEMA
from torch import nn

from deep_interest.errors import InputError
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.models.embeddings import embedding_tables
from deep_interest.models.layers import relies_on_torch
from deep_interest.models.registry import build_model, model_config

D, WIDTH = 18, 36  # the papers' embeddings, and a behaviour of two fields


def build(key, options=None, *, schema=SCHEMA):
    torch.manual_seed(0)
    return build_model(key, model_config(key, options or {}), schema)


def linear_widths(module):
    return [
        (layer.in_features, layer.out_features) for layer in module.modules() if isinstance(layer, nn.Linear)
    ]


@pytest.mark.parametrize(
    ("key", "inputs"),
    [
        ("base", 2 * WIDTH + 2 * D),  # behaviours, candidate; gender and hour
        ("deepfm", 2 * WIDTH + 2 * D),
        ("wide_deep", 2 * WIDTH + 2 * D),
        ("user_only", WIDTH + D),  # behaviours and gender
        ("pnn", 2 * WIDTH + 2 * D + 15),  # 6 fields: 15 pairs
        ("lstm", 2 * WIDTH + 2 * D),
        ("din", 2 * WIDTH + 2 * D),
        ("dien", 2 * WIDTH + 2 * D),
        (
            "dmin",
            (4 + 2) * WIDTH + WIDTH + 2 * D,
        ),  # 4 interests, the sum of the behaviours, its product with the candidate
        ("bst", 20 * (WIDTH + D) + WIDTH + 2 * D),  # 20 positions, each with a vector of its own
    ],
)
def test_the_mlp_is_200_80_over_all_the_vectors(key, inputs):
    assert linear_widths(build(key).mlp) == [(inputs, 200), (200, 80), (80, 1)]


def test_the_activation_unit_of_din_is_80_40_over_behaviour_candidate_and_product():
    assert linear_widths(build("din").attention) == [(3 * WIDTH, 80), (80, 40), (40, 1)]
    assert linear_widths(build("din", {"difference": True}).attention)[0] == (4 * WIDTH, 80)


def test_the_activation_unit_of_dien_is_80_40_over_states_of_the_grus_width():
    attention = build("dien", {"attention": "din", "gru_size": 7}).attention
    assert linear_widths(attention.query) == [(WIDTH, 7)]
    assert attention.activation.weight.shape == (7,)
    assert linear_widths(attention.unit) == [(4 * 7, 80), (80, 40), (40, 1)]
    assert sum(isinstance(layer, nn.Sigmoid) for layer in attention.unit.modules()) == 2


def test_the_bilinear_attention_of_dien_goes_from_the_states_to_the_candidate():
    weight = build("dien", {"gru_size": 70}).attention.weight
    assert weight.shape == (70, WIDTH)
    assert weight.abs().max().item() == pytest.approx((6 / (70 + WIDTH)) ** 0.5, rel=0.01)  # Xavier's bound


def test_the_net_of_the_auxiliary_loss_is_100_50_1():
    net = build("dien", {"aux_weight": 1.0, "aux_score": "net"}).auxiliary.net
    assert linear_widths(net) == [(2 * WIDTH, 100), (100, 50), (50, 1)]


def test_the_net_inside_a_transformer_block_is_four_times_as_wide():
    block = build("bst").blocks[0]
    assert linear_widths(block.feed_forward) == [(WIDTH + D, 4 * (WIDTH + D)), (4 * (WIDTH + D), WIDTH + D)]
    assert block.dropout.p == 0.2
    heads = block.attention.heads
    assert (heads.heads, heads.head_width, heads.causal) == (8, 7, False)  # 54 / 8, rounded up
    assert block.attention.outputs.weight.shape == (WIDTH + D, 56)


def test_the_nets_of_dmin_have_its_authors_widths():
    model = build("dmin")
    assert linear_widths(model.refiner_feed) == [(WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)]
    assert model.refiner.heads.causal
    assert model.extractor.causal
    assert len(model.interests) == 4
    for interest in model.interests:
        assert linear_widths(interest.back) == [(9, WIDTH)]
        assert linear_widths(interest.feed) == [(WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH)]
        assert linear_widths(interest.unit.query) == [(WIDTH + 2, WIDTH)]
        assert linear_widths(interest.unit.net) == [(4 * WIDTH, 80), (80, 40), (40, 1)]


@pytest.mark.parametrize(("value_set", "gates"), [("gru", 3), ("agru", 2), ("augru", 3)])
def test_a_gru_has_a_xavier_matrix_for_each_gate_and_no_bias_at_first(value_set, gates):
    evolution = {"gru": "attention"}.get(value_set, value_set)
    gru = build("dien", {"evolution": evolution, "gru_size": 100}).evolution_gru
    assert gru.input_weight.shape == gru.state_weight.shape == (gates * 100, 100)
    assert torch.equal(gru.bias.detach(), torch.zeros(gates * 100))
    for weight in (gru.input_weight, gru.state_weight):
        for gate in weight.detach().chunk(gates):
            assert gate.abs().max().item() == pytest.approx((6 / 200) ** 0.5, rel=0.01)
            assert gate.mean().abs() < 0.01


LARGE = FeatureSchema(
    item=(Field(name="item_id", size=3000),), behavior=(Field(name="item_id", size=3000),),
    profile=(Field(name="gender", size=2000),),
)  # fmt: skip


@pytest.mark.parametrize("key", ["base", "fm", "din", "dien", "bst", "dmin", "pnn"])
@pytest.mark.parametrize(("options", "std"), [({}, 0.01), ({"embedding_std": 0.5}, 0.5)])
def test_embeddings_begin_normal_with_the_configured_deviation(key, options, std):
    tables = build(key, options, schema=LARGE).embeddings.tables
    assert {name: tuple(table.weight.shape) for name, table in tables.items()} == {
        "item_id": (3000, D),
        "gender": (2000, D),
    }
    for table in tables.values():
        assert table.weight.std().item() == pytest.approx(std, rel=0.03)
        assert table.weight.mean().abs().item() < 0.02 * std


@pytest.mark.parametrize(
    ("key", "options", "shape"),
    [
        ("din", {"positions": 600}, (601, WIDTH)),
        ("bst", {"sequence_length": 900}, (900, D)),
        ("dmin", {"positions": 9000}, (9000, 2)),
    ],
)
def test_positions_begin_normal_with_the_deviation_of_the_embeddings(key, options, shape):
    positions = build(key, options | {"embedding_std": 0.2}).positions
    assert positions.shape == shape
    assert positions.std().item() == pytest.approx(0.2, rel=0.03)


@pytest.mark.parametrize("key", ["lr", "wide_deep", "deepfm", "fm"])
def test_weights_of_single_ids_begin_at_zero(key):
    model = build(key)
    weights = [table.weight for table in embedding_tables(model) if table.embedding_dim == 1]
    assert len(weights) == (2 if key == "wide_deep" else 6)
    assert not any(weight.any() for weight in weights)


def test_tables_know_their_field_and_the_groups_that_look_them_up():
    tables = {table.field: table for table in embedding_tables(build("base", {"keep_top": 4}))}
    assert {name: (table.num_embeddings, table.groups, table.keep_top) for name, table in tables.items()} == {
        "item_id": (13, ("item", "behavior"), 4), "category": (5, ("item", "behavior"), 0),
        "gender": (3, ("profile",), 0), "hour": (4, ("context",), 0),
    }  # fmt: skip
    assert tables["item_id"].kept.dtype == torch.bool
    assert tables["item_id"].kept.tolist() == [True] * 13  # until the counts are known
    assert not hasattr(tables["category"], "kept")
    linear = {
        table.field: table.groups for table in embedding_tables(build("lr")) if table.field != "item_id"
    }
    assert linear == {"category": ("behavior",), "gender": ("profile",), "hour": ("context",)}
    crosses = build("wide_deep").wide.weights
    assert {name: (table.num_embeddings, table.groups, table.field) for name, table in crosses.items()} == {
        "item_id": (169, (), "item_id"), "category": (25, (), "category"),
    }  # fmt: skip


def test_the_filter_counts_equal_ids_in_their_order():
    table = build("base", {"keep_top": 3}).embeddings.tables["item_id"]
    table.keep_most_frequent(torch.tensor([0, 5, 5, 9, 5, 5, 0, 0, 0, 0, 0, 0, 0]))
    assert table.kept.nonzero().squeeze(1).tolist() == [1, 2, 3]
    assert table.rows_of(torch.tensor([0, 1, 3, 4, 12])).tolist() == [0, 1, 3, 0, 0]


@pytest.mark.parametrize(
    ("key", "options", "expected"),
    [
        ("base", {}, False), ("base", {"batch_norm": True}, True), ("din", {}, False), ("dien", {}, False), ("lstm", {}, False),
        ("bst", {}, False), ("dmin", {}, False), ("base", {"activation": "dice"}, False),
    ],
)  # fmt: skip
def test_which_models_leave_much_work_to_torch(key, options, expected):
    assert relies_on_torch(build(key, options)) == expected


@pytest.mark.parametrize(("key", "name"), [("din", "DIN"), ("bst", "BST"), ("dmin", "DMIN")])
def test_a_model_that_compares_fields_names_itself_if_behaviours_share_none_with_the_candidate(key, name):
    schema = SCHEMA.model_copy(update={"behavior": (Field(name="shop", size=7), Field(name="city", size=2))})
    message = rf"^features\.behavior: {name} compares .* has none of the item fields item_id, category; add one of them$"
    with pytest.raises(InputError, match=message):
        build(key, schema=schema)
