from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from support import reference, reference_long, reference_rocket
from support.batches import (
    DENSE_SCHEMA,
    OWN_SCHEMA,
    PLAIN_SCHEMA,
    SCHEMA,
    random_batch,
    sharing_batches,
    take,
)
from support.training_samples import SamplesInMemory

from deep_interest.errors import InputError
from deep_interest.models.popularity import prior_strength
from deep_interest.models.registry import MODELS, build_model, find_model, model_config

SMALL = {
    "embedding_dim": 4,
    "embedding_std": 1.0,
    "hidden": (5, 4),
    "attention_hidden": (6, 3),
    "dropout": 0.0,
}
LENGTHS = [3, 0, 1, 7, 2]
TRAINED = [key for key, row in MODELS.items() if not row.closed_form]
ORDERED = [key for key in TRAINED if key.startswith(("lstm", "gru", "dien", "bst", "dmin", "din_positions"))]
POOLED = [
    key
    for key in TRAINED
    if key.startswith(
        (
            "lr",
            "user",
            "base",
            "reg",
            "wide",
            "fm",
            "pnn",
            "deepfm",
            "din",
            "sim",
            "eta",
            "sdim",
            "twin",
            "stca",
        )
    )
]
POOLED = [key for key in POOLED if key not in ORDERED]
OPTIONS = yaml.safe_load((Path(__file__).parents[2] / "conf/base/parameters/models.yml").read_text())[
    "models"
]


def build(key, options=None, *, schema=SCHEMA, seed=0, own_dim=3):
    """A model in float64 with the options of models.yml unless overridden, and no parameter at 0 or 1."""
    torch.manual_seed(seed)
    own = {name: value for name, value in OPTIONS[key].items() if name != "training"}
    common = {**SMALL, "own_dim": own_dim}
    model = build_model(
        key, model_config(key, own if options is None else options, common=common), schema
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


BINARY = partial(reference.binary_auxiliary, net=False)
NET = partial(reference.binary_auxiliary, net=True)
INFONCE = partial(reference.infonce_auxiliary, negatives=3)
INFONCE_NET = partial(reference.infonce_auxiliary, negatives=3, net=True)
UNBLOCKED = {"hint_weight": 0.7, "gradient_block": False}  # so that gradients are those of the loss
REFERENCES = [
    ("lr", {}, reference.lr),
    *(("base", {"pooling": how}, partial(reference.base_model, pooling=how)) for how in ("sum", "mean")),
    ("user_only", {"pooling": "mean"}, partial(reference.user_only, pooling="mean")),
    *(("wide_deep", {"pooling": how}, partial(reference.wide_deep, pooling=how)) for how in ("sum", "mean")),
    ("pnn", {}, partial(reference.pnn, dim=4)),
    ("fm", {}, partial(reference.fm, dim=4)),
    ("deepfm", {}, partial(reference.deepfm, dim=4)),
    *(
        (
            "din",
            {"normalize": normalize, "difference": difference},
            partial(reference.din, normalize=normalize, difference=difference),
        )
        for normalize in ("none", "softmax")
        for difference in (False, True)
    ),
    (
        "din_positions",
        {"normalize": "softmax", "difference": True, "positions": 5},
        partial(reference.din, normalize="softmax", difference=True, positions=True),
    ),
    (
        "din_light",
        {**UNBLOCKED, "light": {"hidden": (3, 2), "attention_hidden": (4, 2)}},
        partial(reference_rocket.light_net, net=partial(reference.din, normalize="none", difference=False), hint_weight=0.7),
    ),
    (
        "dien_light",
        {**UNBLOCKED, "light": {"hidden": (3, 2), "gru_size": 3}},
        partial(reference_rocket.light_net, net=partial(reference.dien, evolution="augru"), hint_weight=0.7),
    ),
    (
        "dien_light",
        {**UNBLOCKED, "light": {"ratio": 0.5}, "aux_weight": 1.0},
        partial(reference_rocket.light_net, net=partial(reference.dien, evolution="augru"), hint_weight=0.7, aux=BINARY),
    ),
    ("lstm", {}, reference.lstm),
    *(
        ("dien", {"evolution": evolution, "attention": attention, "gru_size": 3},
         partial(reference.dien, evolution=evolution, attention=attention))
        for evolution in ("attention", "aigru", "agru", "augru", "augru_code")
        for attention in ("bilinear", "din")
    ),
    ("dien", {"aux_weight": 1.0}, partial(reference.dien, evolution="augru", aux=BINARY)),
    ("dien", {"aux_weight": 1.0, "aux_score": "net"}, partial(reference.dien, evolution="augru", aux=NET)),
    (
        "dien_infonce",
        {"aux_weight": 1.0, "aux_contrast": "infonce", "aux_negatives": 3},
        partial(reference.dien, evolution="augru", aux=INFONCE),
    ),
    (
        "dien_infonce",
        {"aux_weight": 1.0, "aux_contrast": "infonce", "aux_negatives": 3, "aux_score": "net"},
        partial(reference.dien, evolution="augru", aux=INFONCE_NET),
    ),
    *(
        ("bst", {"heads": heads, "blocks": blocks, "sequence_length": length, "output": output},
         partial(reference.bst, number=heads, blocks=blocks, length=length, output=output))
        for heads, blocks, length, output in ((2, 1, 5, "all"), (5, 2, 20, "all"), (2, 2, 5, "candidate"))
    ),
    ("sim_hard", {"search_length": 2, "short_length": 2, "heads": 2}, partial(reference_long.sim_hard, count=2, length=2, heads=2)),
    (
        "sim_soft",
        {"search": "soft", "search_length": 3, "short_length": 2, "heads": 2},
        partial(reference_long.sim_soft, count=3, length=2, heads=2),
    ),
    ("eta", {"search_length": 3, "short_length": 2}, partial(reference_long.eta, count=3, length=2)),
    (
        "sdim",
        {"hash_rounds": 4, "bucket_bits": 2, "short_length": 2},
        partial(reference_long.sdim, rounds=4, bits=2, length=2),
    ),
    ("twin", {"search_length": 3, "short_length": 2, "heads": 2}, partial(reference_long.twin, count=3, length=2, heads=2)),
    *(("stca", {"layers": layers}, partial(reference_long.stca, layers=layers)) for layers in (1, 3)),
    *(
        ("dmin", {"heads": heads, "positions": 5, **options}, partial(reference.dmin, number=heads, aux=aux))
        for heads, options, aux in ((4, {}, BINARY), (3, {"aux_score": "net"}, NET))
    ),
]  # fmt: skip
IDS = [f"{key} {options}" for key, options, _ in REFERENCES]


def expected_of(expected, model, batch, schema):
    """Logits and auxiliary loss (0 if there is none) by the reference."""
    found = expected(reference.parameters(model), batch, schema)
    return found if isinstance(found, tuple) else (found, 0.0)


@pytest.mark.parametrize(
    "schema",
    [SCHEMA, PLAIN_SCHEMA, OWN_SCHEMA, DENSE_SCHEMA],
    ids=["all groups", "items only", "own fields", "dense fields"],
)
@pytest.mark.parametrize(("key", "options", "expected"), REFERENCES, ids=IDS)
def test_logits_and_auxiliary_loss_agree_with_the_equations(key, options, expected, schema):
    model, batch = build(key, options, schema=schema), random_batch(LENGTHS, schema=schema)
    output = model(batch)
    logits, auxiliary = expected_of(expected, model, batch, schema)
    np.testing.assert_allclose(output.logits.detach().numpy(), logits, atol=1e-9)
    ours = 0.0 if output.auxiliary_loss is None else output.auxiliary_loss.item()
    assert ours == pytest.approx(auxiliary, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema", [SCHEMA, OWN_SCHEMA, DENSE_SCHEMA], ids=["all groups", "own fields", "dense fields"]
)
@pytest.mark.parametrize(("key", "options", "expected"), REFERENCES, ids=IDS)
def test_gradients_agree_with_finite_differences_of_the_equations(key, options, expected, schema):
    model, batch = build(key, options, schema=schema, own_dim=4), random_batch(LENGTHS, schema=schema)
    output = model(batch)
    loss = F.binary_cross_entropy_with_logits(output.logits, batch.labels)
    (loss if output.auxiliary_loss is None else loss + output.auxiliary_loss).backward()
    values, labels = reference.parameters(model), batch.labels.numpy()

    def reference_loss():
        found = expected(values, batch, schema)
        z, auxiliary = found if isinstance(found, tuple) else (found, 0.0)
        return np.mean(np.logaddexp(0, z) - labels * z) + auxiliary

    rng = np.random.default_rng(0)
    for name, parameter in model.named_parameters():
        gradient = parameter.grad.to_dense().numpy() if parameter.grad.is_sparse else parameter.grad.numpy()
        for flat in rng.choice(gradient.size, min(4, gradient.size), replace=False):
            index = np.unravel_index(flat, gradient.shape)
            before = values[name][index].copy()
            values[name][index] = before + 1e-5
            up = reference_loss()
            values[name][index] = before - 1e-5
            down = reference_loss()
            values[name][index] = before
            assert gradient[index] == pytest.approx((up - down) / 2e-5, rel=1e-7, abs=3e-8), name


@pytest.mark.parametrize("key", TRAINED)
def test_a_samples_score_does_not_depend_on_the_other_samples_or_their_order(key):
    model, batch = build(key).eval(), random_batch(LENGTHS)
    together = model(batch).logits
    order = [4, 1, 3, 0, 2]
    torch.testing.assert_close(model(take(batch, order)).logits, together[order])
    for sample in range(batch.size):
        torch.testing.assert_close(model(take(batch, [sample])).logits[0], together[sample])


@pytest.mark.parametrize("key", [*POOLED, *ORDERED])
def test_only_pooled_rows_are_blind_to_the_order_of_a_history(key):
    model, batch = build(key).eval(), random_batch([4])
    shuffled = take(batch, [0])
    shuffled.history = {name: codes[[2, 0, 3, 1]] for name, codes in batch.history.items()}
    change = (model(shuffled).logits - model(batch).logits).abs().item()
    assert change < 1e-9 if key in POOLED else change > 1e-6


@pytest.mark.parametrize("key", TRAINED)
@pytest.mark.parametrize("lengths", [[0], [1], [0, 0, 0]])
def test_empty_histories_and_batches_of_one_train(key, lengths):
    model, batch = build(key).train(), random_batch(lengths)
    output = model(batch)
    loss = F.binary_cross_entropy_with_logits(output.logits, batch.labels)
    (loss if output.auxiliary_loss is None else loss + output.auxiliary_loss).backward()
    assert all(
        torch.isfinite(p.grad.coalesce().values() if p.grad.is_sparse else p.grad).all()
        for p in model.parameters()
        if p.grad is not None
    )


@pytest.mark.parametrize("key", TRAINED)
@pytest.mark.parametrize(
    "behavior", [SCHEMA.item[1:], SCHEMA.item[::-1]], ids=["category only", "other order"]
)
def test_behaviours_may_have_other_fields_than_the_candidate_has_or_in_another_order(key, behavior):
    schema = SCHEMA.model_copy(update={"behavior": behavior})
    model, batch = build(key, schema=schema).train(), random_batch(LENGTHS, schema=schema)
    output = model(batch)
    assert torch.isfinite(output.logits).all()
    assert output.auxiliary_loss is None or torch.isfinite(output.auxiliary_loss)


def test_din_with_dice_takes_its_statistics_over_the_real_positions():
    model, batch = (
        build("din_dice", {"activation": "dice", "attention_activation": "dice"}).train(),
        random_batch([3, 0, 5]),
    )
    seen = []
    model.attention.activation.register_forward_hook(
        lambda _module, inputs, _output: seen.append(inputs[0].shape)
    )
    model(batch)
    assert seen == [(8, 6)]


def outputs_and_gradients(model, batch):
    """Logits, auxiliary loss and the gradients of one step's loss."""
    model.zero_grad()
    output = model(batch)
    loss = F.binary_cross_entropy_with_logits(output.logits, batch.labels.to(output.logits.dtype))
    (loss if output.auxiliary_loss is None else loss + output.auxiliary_loss).backward()
    gradients = [p.grad.to_dense().double() for p in model.parameters() if p.grad is not None]
    return [output.logits.detach().double(), *gradients]


@pytest.mark.parametrize("key", TRAINED)
@pytest.mark.parametrize(
    "schema", [SCHEMA, OWN_SCHEMA, DENSE_SCHEMA], ids=["all groups", "own fields", "dense fields"]
)
def test_samples_that_share_a_history_are_as_samples_with_their_own(key, schema):
    shared, own = sharing_batches([9, 2, 5, 0, 1], [0, 0, 0, 0, 1, 2, 3, 3, 4], schema=schema)
    lends = (
        key == "dien_infonce"
    )  # whose negatives a position borrows depends on the batch: see test_auxiliary.py
    model = build(key, OPTIONS[key] | {"aux_weight": 0.0} if lends else None, schema=schema)
    for ours, expected in zip(
        outputs_and_gradients(model, shared), outputs_and_gradients(model, own), strict=True
    ):
        torch.testing.assert_close(ours, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("key", TRAINED)
@pytest.mark.parametrize(
    "schema", [SCHEMA, OWN_SCHEMA, DENSE_SCHEMA], ids=["all groups", "own fields", "dense fields"]
)
def test_float32_takes_the_compiled_operations_and_agrees(key, schema):
    for batch in sharing_batches([3, 0, 1, 7, 12], [0, 0, 1, 2, 3, 3, 4], schema=schema):
        precise, model = build(key, schema=schema), build(key, schema=schema).float()
        found, expected = outputs_and_gradients(model, batch), outputs_and_gradients(precise, batch)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)


def test_the_activation_unit_sees_a_behaviours_own_fields_of_the_candidate():
    schema = SCHEMA.model_copy(update={"behavior": SCHEMA.item[1:]})  # behaviours have a category only
    model, batch = build("din", schema=schema), random_batch(LENGTHS, schema=schema)
    other = take(batch, list(range(5)))
    other.candidate = batch.candidate | {"item_id": (batch.candidate["item_id"] + 1) % 13}
    history = model.embeddings(batch.history, schema.behavior)

    def weigh(b):
        return model.attention(
            history, model.same_fields(model.embeddings(b.candidate, schema.item)), b.pairs
        )

    torch.testing.assert_close(weigh(other), weigh(batch))


def test_popularity_ranks_by_positive_training_samples_and_predicts_their_share():
    item_ids = torch.tensor([1] * 8 + [2] * 8 + [3] * 8, dtype=torch.int32)
    labels = torch.tensor([1] * 6 + [0] * 2 + [1] * 3 + [0] * 5 + [0] * 8, dtype=torch.float32)
    model = build("popularity")
    model.fit(SamplesInMemory({"item_id": item_ids}, {}, labels))
    scores = torch.sigmoid(model.logits)
    assert scores[1] > scores[2] > scores[3] == scores[0]
    assert scores[item_ids.long()].mean().item() == pytest.approx(labels.mean().item(), abs=1e-4)


def test_the_items_rate_is_smoothed_towards_the_mean_of_all_samples():
    """Items with 1, 3 and 8 positives of 10: m = 12 / 30 = 0.4, m (1 - m) = 0.24, S = 10 (0.09 + 0.01 + 0.16) = 2.6.

    ρ = (2.6 / 0.24 - 2) / (3 · 9 · 2 / 3) = 8.8333 / 18 = 0.490741, so a = 1 / ρ - 1 = 1.037736, and item 1 has
    (1 + 0.415094) / 11.037736 = 0.128205.
    """
    item_ids = torch.tensor([1] * 10 + [2] * 10 + [3] * 10, dtype=torch.int32)
    labels = torch.tensor([1] + [0] * 9 + [1] * 3 + [0] * 7 + [1] * 8 + [0] * 2, dtype=torch.float32)
    model = build("item_rate")
    model.fit(SamplesInMemory({"item_id": item_ids}, {}, labels))
    scores = torch.sigmoid(model.logits)
    assert scores[:5].tolist() == pytest.approx([0.4, 0.128205, 0.309402, 0.762393, 0.4], abs=1e-6)


@pytest.mark.parametrize(
    ("positives", "samples", "strength"),
    [
        ([3.0, 3.0], [10.0, 10.0], 1e6),  # the rates do not differ
        ([5.0, 0.0], [5.0, 5.0], 1.0),  # every item has one label only: ρ = 1, a = 0
        ([0.0, 0.0], [5.0, 5.0], 1e6),
        ([1.0, 0.0], [1.0, 1.0], 1e6),  # one sample an item: nothing to estimate from
    ],
)
def test_the_smoothing_strength_has_bounds(positives, samples, strength):
    assert prior_strength(torch.tensor(positives), torch.tensor(samples)) == pytest.approx(strength)


def test_an_unknown_row_or_option_is_named():
    with pytest.raises(
        InputError, match="model 'dinn' is unknown; the models are popularity, item_rate, item_knn, "
    ):
        find_model("dinn")
    with pytest.raises(ValueError, match="atention"):
        model_config("din", {"atention": 3})


def test_a_recipes_common_options_reach_the_models_that_have_them():
    assert (
        model_config(
            "din", {"embedding_dim": 7}, common={"embedding_dim": 5, "pooling": "mean"}
        ).embedding_dim
        == 7
    )
    assert model_config("base", {}, common={"embedding_dim": 5, "pooling": "mean"}).pooling == "mean"
    assert model_config("lr", {}, common={"embedding_dim": 5}) == model_config("lr", {})


def test_without_auxiliary_weight_there_is_no_auxiliary_loss_and_no_negative_is_drawn():
    model = build("dien", {"aux_weight": 0.0})
    assert model(random_batch(LENGTHS)).auxiliary_loss is None
    assert not model.uses_negatives


def test_the_auxiliary_loss_is_weighed_by_alpha():
    batch = random_batch(LENGTHS)
    losses = [build("dien", {"aux_weight": weight})(batch).auxiliary_loss.item() for weight in (0.5, 2.0)]
    assert losses[1] == pytest.approx(4 * losses[0])


def test_in_evaluation_nothing_is_drawn_and_there_is_no_auxiliary_loss():
    batch = random_batch(LENGTHS)
    batch.negatives = None
    assert build("dien", {"aux_weight": 1.0}).eval()(batch).auxiliary_loss is None


def test_gru_of_another_width_than_a_behaviour_cannot_have_an_auxiliary_loss():
    with pytest.raises(InputError, match=r"gru_size: found 3, but .* behaviours of width 8"):
        build("dien", {"gru_size": 3, "aux_weight": 1.0})


def test_bst_drops_outputs_in_training_only():
    batch = random_batch(LENGTHS)
    model = build("bst", {"dropout": 0.5})
    torch.manual_seed(0)
    assert not torch.equal(model(batch).logits, model(batch).logits)
    whole = build("bst", {"dropout": 0.0})
    torch.testing.assert_close(model.eval()(batch).logits, whole(batch).logits, rtol=0, atol=0)


@pytest.mark.parametrize("owner", [None, [0, 0, 1]])
def test_bst_sees_the_newest_behaviours_alone(owner):
    model, batch = build("bst", {"sequence_length": 4}).eval(), random_batch([5, 3, 2])
    if owner is not None:
        batch = replace(batch, owner=torch.tensor(owner))
    older, newer = (
        replace(batch, history={name: codes.index_fill(0, torch.tensor([row]), 0) for name, codes in batch.history.items()})
        for row in (1, 2)
    )  # fmt: skip
    assert torch.equal(model(older).logits, model(batch).logits)  # 4 others are nearer
    assert not torch.equal(model(newer).logits[0], model(batch).logits[0])


def test_without_items_a_model_does_not_see_them():
    model, batch = build("reg_no_goods").eval(), random_batch(LENGTHS)
    assert set(model.embeddings.tables) == {"category", "gender", "hour"}
    other = take(batch, range(5))
    other.candidate = batch.candidate | {"item_id": (batch.candidate["item_id"] + 1) % 13}
    torch.testing.assert_close(model(other).logits, model(batch).logits, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (("shop",), "shop is not a feature; the features are item_id"),
        (("item_id", "category"), "leaves no field"),
    ],
)
def test_a_field_that_cannot_be_left_out_is_named(without, message):
    with pytest.raises(InputError, match=message):
        build("base", {"without": without})


def test_the_filter_keeps_the_most_frequent_items_and_lets_the_others_share_one_row():
    model, batch = build("reg_filter", {"keep_top": 2}).eval(), random_batch(LENGTHS)
    table = model.embeddings.tables["item_id"]
    table.keep_most_frequent(torch.tensor([9, 0, 5, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0]))
    assert table.kept.nonzero().squeeze(1).tolist() == [0, 2]
    item_ids = model.embeddings({"item_id": torch.arange(13)}, SCHEMA.item[:1])
    assert not torch.equal(item_ids[2], item_ids[0])
    torch.testing.assert_close(item_ids[[1, 3, 4, 12]], item_ids[[0, 0, 0, 0]], rtol=0, atol=0)
    assert torch.isfinite(model(batch).logits).all()


@pytest.mark.parametrize("key", ["wide_deep", "deepfm"])
def test_rows_with_weights_of_single_ids_refuse_the_filter(key):
    with pytest.raises(ValueError, match="keep_top"):
        build(key, {"keep_top": 2})


def test_the_filter_without_items_filters_nothing():
    assert torch.isfinite(
        build("base", {"keep_top": 2, "without": ["item_id"]})(random_batch(LENGTHS)).logits
    ).all()


def test_crossed_pairs_share_weights_by_a_hash_when_there_are_too_many():
    model, batch = build("wide_deep", {"cross_rows": 7}), random_batch(LENGTHS)
    assert model.wide.weights["item_id"].num_embeddings == 7
    pairs = model.wide._pairs(batch, "item_id", 7)
    assert pairs.min() >= 0
    assert pairs.max() < 7
    again = model.wide._pairs(take(batch, range(5)), "item_id", 7)
    assert torch.equal(pairs, again)


def test_batch_normalisation_precedes_each_activation_and_takes_a_batch_of_one():
    model = build("base", {"batch_norm": True}).train()
    kinds = [type(layer).__name__ for layer in model.mlp.layers]
    assert kinds == ["Linear", "BatchNorm", "PReLU", "Linear", "BatchNorm", "PReLU", "Linear"]
    assert torch.isfinite(model(random_batch([2])).logits).all()


def test_goods_is_an_alias_of_item_id_among_the_fields_to_leave_out():
    assert model_config("base", {"without": ["goods", "category"]}).without == ("item_id", "category")
