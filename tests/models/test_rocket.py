"""Rocket Launching: the loss of both nets, what the hint loss moves, and evaluation without the booster."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import reference, reference_rocket
from support.batches import ITEM, OWN_SCHEMA, SCHEMA, random_batch

from deep_interest.errors import InputError
from deep_interest.logs.schema import Field, Sequence
from deep_interest.models.embeddings import embedding_tables
from deep_interest.models.registry import build_model, model_config
from deep_interest.serving.scorer import Scorer

SMALL = {"embedding_dim": 4, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
LENGTHS = [3, 0, 1, 7, 2]
KEYS = ["din_light", "dien_light"]
LIGHT = {"din_light": {"attention_hidden": (4, 2)}, "dien_light": {"gru_size": 3}}
NETS = {
    "din_light": lambda p, batch, schema: reference.din(p, batch, schema, normalize="none", difference=False),
    "dien_light": lambda p, batch, schema: reference.dien(p, batch, schema, evolution="augru"),
}


def build(key, options=None, *, schema=SCHEMA):
    """A model in float64 with no parameter at 0 or 1, in training mode."""
    torch.manual_seed(0)
    light = {"hidden": (3, 2), **LIGHT.get(key, {})}
    config = model_config(key, {"light": light, **(options or {})}, common=SMALL)
    model = build_model(key, config, schema).double().train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def losses(model, batch):
    """Cross entropy of the light net, and what is added to it."""
    output = model(batch)
    return F.binary_cross_entropy_with_logits(output.logits, batch.labels), output.auxiliary_loss


def gradients(model, loss):
    """The gradient of every parameter by name; 0 for those that the loss does not depend on."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient.to_dense()
        for name, parameter, gradient in zip(names, parameters, found, strict=True)
    }


def with_constant_logits(model, *, light, booster):
    """The model with all parameters at 0 except the biases of both output layers."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.mlp.layers[-1].bias.fill_(light)
        model.booster.mlp.layers[-1].bias.fill_(booster)
    return model


@pytest.mark.parametrize("key", KEYS)
def test_the_loss_of_a_small_case_by_hand(key):
    """l = 1, z = -1, labels 1, 0, 0: H(y, σ(z)) = (log(1 + e) + 2 log(1 + 1/e)) / 3 = 0.6465950, and λ (l - z)² = 0.5 · 4."""
    model = with_constant_logits(build(key, {"hint_weight": 0.5}), light=1.0, booster=-1.0)
    batch = random_batch([2, 0, 1])
    batch.labels = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    output = model(batch)
    assert output.logits.tolist() == [1.0, 1.0, 1.0]
    assert output.auxiliary_loss.item() == pytest.approx(0.6465950 + 2.0, abs=1e-7)


@pytest.mark.parametrize("key", KEYS)
def test_weights_of_samples_apply_to_every_term(key):
    """As above with weights 2, 1, 0: (2 log(1 + e) + log(1 + 1/e)) / 3 = 0.9799284, and 0.5 · 4 · (2 + 1) / 3."""
    model = with_constant_logits(build(key, {"hint_weight": 0.5}), light=1.0, booster=-1.0)
    batch = random_batch([2, 0, 1])
    batch.labels = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    batch.weights = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)
    assert model(batch).auxiliary_loss.item() == pytest.approx(0.9799284 + 2.0, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("key", KEYS)
def test_the_gradient_of_every_parameter_by_finite_differences(key, block):
    """With gradient block, the reference compares the light net with the booster's logits of before."""
    model, batch = build(key, {"hint_weight": 2.0, "gradient_block": block}), random_batch(LENGTHS)
    found = gradients(model, sum(losses(model, batch)))
    values, labels, net = reference.parameters(model), batch.labels.numpy(), NETS[key]
    before = net(reference_rocket.nets(values)[1], batch, SCHEMA)

    def loss():
        logits, more = reference_rocket.light_net(
            values, batch, SCHEMA, net=net, hint_weight=2.0, target=before if block else None
        )
        return reference_rocket.cross_entropy(logits, labels) + more

    rng = np.random.default_rng(0)
    for name, gradient in found.items():
        for flat in rng.choice(gradient.numel(), min(2, gradient.numel()), replace=False):
            index = np.unravel_index(flat, gradient.shape)
            value, ends = values[name][index].copy(), []
            for step in (1e-5, -1e-5):
                values[name][index] = value + step
                ends.append(loss())
            values[name][index] = value
            assert gradient[index].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7), (
                name
            )


@pytest.mark.parametrize("key", KEYS)
def test_the_hint_loss_moves_no_parameter_of_the_booster(key):
    batch = random_batch(LENGTHS)
    found = {
        (weight, block): gradients(
            model := build(key, {"hint_weight": weight, "gradient_block": block}), sum(losses(model, batch))
        )
        for weight, block in ((0.0, True), (5.0, True), (5.0, False))
    }
    boosters = [name for name in found[0.0, True] if name.startswith("booster.")]
    assert len(boosters) > 5
    for name in boosters:
        assert torch.equal(found[5.0, True][name], found[0.0, True][name])
    assert not torch.equal(
        found[5.0, False]["booster.mlp.layers.0.weight"], found[0.0, True]["booster.mlp.layers.0.weight"]
    )
    for name in ("mlp.layers.0.weight", "embeddings.tables.item_id.weight"):  # the light net's side
        assert not torch.equal(found[5.0, True][name], found[0.0, True][name])


@pytest.mark.parametrize("key", KEYS)
def test_both_cross_entropies_train_the_shared_embeddings(key):
    model, batch = build(key, {"hint_weight": 0.0}), random_batch(LENGTHS)
    of_light, of_booster = (gradients(model, loss) for loss in losses(model, batch))
    for name, gradient in of_light.items():
        assert bool(gradient.any()) == (not name.startswith("booster.")), name
        shared = name.startswith("embeddings.")
        assert bool(of_booster[name].any()) == (shared or name.startswith("booster.")), name
    both = gradients(model, sum(losses(model, batch)))
    for name in (name for name in both if name.startswith("embeddings.")):
        torch.testing.assert_close(both[name], of_light[name] + of_booster[name])


@pytest.mark.parametrize("key", KEYS)
def test_evaluation_does_not_touch_the_booster(key):
    model, batch = build(key).eval(), random_batch(LENGTHS)
    logits = model(batch).logits
    user = random_batch([5])
    scores = Scorer(model)(user.history, user.candidate, profile=user.profile, context=user.context)
    with torch.no_grad():
        for parameter in model.booster.parameters():
            parameter.fill_(torch.nan)
    assert torch.equal(model(batch).logits, logits)
    assert model(batch).auxiliary_loss is None
    model.booster = None
    assert torch.equal(model(batch).logits, logits)
    assert torch.equal(
        Scorer(model)(user.history, user.candidate, profile=user.profile, context=user.context), scores
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("schema", [SCHEMA, OWN_SCHEMA], ids=["all groups", "own fields"])
def test_both_nets_are_ordinary_models_with_the_same_embeddings(key, schema):
    """The light net has the parameters of a DIN or DIEN of its widths; the booster has those of one of the model's, without tables."""
    carts = Sequence(behavior=(*ITEM, Field(name="action", size=4)))
    schema = schema.model_copy(update={"sequences": {"carts": carts}})
    batch = random_batch(LENGTHS, schema=schema)
    more = random_batch([3, 4, 0, 2, 1], schema=schema.of_sequence("carts"), seed=3)
    batch = replace(batch, negatives=None, sequences={"carts": replace(more, candidate=batch.candidate)})
    model, base = build(key, {"hint_weight": 0.0}, schema=schema), key.removesuffix("_light")
    assert embedding_tables(model.booster) == []
    own = LIGHT[key] | {"hidden": (3, 2)}
    light, booster = (
        build_model(base, model_config(base, options, common=SMALL), schema).double() for options in (own, {})
    )
    state = model.state_dict()
    light.load_state_dict({name: state[name] for name in state if not name.startswith("booster.")})
    booster.load_state_dict(
        {name: state.get(f"booster.{name}", state.get(name)) for name in booster.state_dict()}
    )
    output = model(batch)
    torch.testing.assert_close(output.logits, light(batch).logits)
    expected = F.binary_cross_entropy_with_logits(booster(batch).logits, batch.labels)
    torch.testing.assert_close(output.auxiliary_loss, expected)


@pytest.mark.parametrize("key", KEYS)
def test_both_nets_have_the_same_item_bias(key):
    """A bias of 2 for every item: l = 3, z = 1, labels 1, 0, 0, so H(y, σ(z)) = (log(1 + 1/e) + 2 log(1 + e)) / 3 = 0.9799283."""
    model = with_constant_logits(build(key, {"item_bias": True, "hint_weight": 0.5}), light=1.0, booster=-1.0)
    with torch.no_grad():
        model.item_bias.weight.fill_(2.0)
    batch = random_batch([2, 0, 1])
    batch.labels = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    output = model(batch)
    assert output.logits.tolist() == [3.0, 3.0, 3.0]
    assert output.auxiliary_loss.item() == pytest.approx(0.9799283 + 2.0, abs=1e-7)


def test_the_light_dien_has_the_papers_gru_sizes():
    """Embeddings of 54 for item and category make GRUs of 108; those of the light net have 32."""
    schema = SCHEMA.model_copy(update={"profile": (), "context": ()})
    model = build_model(
        "dien_light", model_config("dien_light", {"aux_weight": 1.0}, common={"embedding_dim": 54}), schema
    )
    assert model.booster.extractor.state_weight.shape == (3 * 108, 108)
    assert model.extractor.state_weight.shape == model.evolution_gru.state_weight.shape == (3 * 32, 32)
    assert model.extractor.input_weight.shape == (3 * 32, 108)
    assert [len(layer.weight) for layer in model.mlp.layers[::2]] == [59, 24, 1]  # 200 and 80 times 32 / 108
    assert [len(layer.weight) for layer in model.booster.mlp.layers[::2]] == [200, 80, 1]


def test_a_width_of_the_light_net_takes_precedence_over_the_ratio():
    model = build_model(
        "din_light", model_config("din_light", {"light": {"ratio": 0.01, "hidden": (7,)}}), SCHEMA
    )
    assert [len(layer.weight) for layer in model.mlp.layers[::2]] == [7, 1]
    assert len(model.attention.first.weight) == 1  # 80 · 0.01, and 1 at least
    assert len(model.booster.attention.first.weight) == 80


def test_the_auxiliary_loss_is_that_of_the_booster():
    batch = random_batch(LENGTHS)
    with_loss, without = (build("dien_light", {"aux_weight": weight}) for weight in (2.0, 0.0))
    assert (with_loss.uses_negatives, without.uses_negatives) == (True, False)
    assert not any("auxiliary" in name for name in with_loss.state_dict() if not name.startswith("booster."))
    values = reference.parameters(with_loss)
    states = [
        reference.gru_states(reference_rocket.nets(values)[1], "extractor", history)
        for history in reference.histories(values, batch, SCHEMA)
    ]
    expected = 2.0 * reference.binary_auxiliary(values, batch, SCHEMA, states)
    difference = with_loss(batch).auxiliary_loss - without(batch).auxiliary_loss
    assert difference.item() == pytest.approx(expected)


@pytest.mark.parametrize("key", KEYS)
def test_with_a_booster_from_before_the_light_net_alone_is_trained(key):
    """l = 1 and logits of the booster 1, 3, -1: the hint loss is 0.5 · (0 + 4 + 4) / 3."""
    batch = random_batch([2, 0, 1])
    batch.booster_logits = torch.tensor([1.0, 3.0, -1.0], dtype=torch.float64)
    model = build(key, {"booster": "frozen", "hint_weight": 0.5})
    assert model.needs_booster_logits
    assert not any("booster" in name for name in model.state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.mlp.layers[-1].bias.fill_(1.0)
    assert model(batch).auxiliary_loss.item() == pytest.approx(4 / 3)
    batch.weights = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    assert model(batch).auxiliary_loss.item() == pytest.approx(2.0)
    assert model.eval()(batch).auxiliary_loss is None


@pytest.mark.parametrize("key", KEYS)
def test_a_light_net_alone_has_no_other_loss_and_the_same_parameters(key):
    alone, together = build(key, {"booster": "none"}), build(key)
    batch = random_batch(LENGTHS)
    batch.booster_logits = torch.zeros(5, dtype=torch.float64)
    assert alone(batch).auxiliary_loss is None
    assert not alone.needs_booster_logits
    names = [name for name in together.state_dict() if not name.startswith("booster.")]
    assert list(alone.state_dict()) == names


def test_a_light_net_alone_has_no_auxiliary_loss():
    with pytest.raises(
        ValueError,
        match=r"aux_weight: found 0\.5 with booster: none, but the auxiliary loss is that of the booster",
    ):
        model_config("dien_light", {"booster": "none", "aux_weight": 0.5})


def test_the_booster_needs_gru_sizes_that_its_auxiliary_loss_can_compare():
    with pytest.raises(InputError, match="gru_size: found 5, but the auxiliary loss"):
        build("dien_light", {"aux_weight": 1.0, "gru_size": 5})


@pytest.mark.parametrize("wrong", [{"ratio": 0.0}, {"ratio": 1.5}, {"width": 3}, {"gru_size": 8}])
def test_widths_that_a_light_din_cannot_have_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        model_config("din_light", {"light": wrong})
