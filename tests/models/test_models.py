import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import reference
from support.batches import PLAIN_SCHEMA, SCHEMA, random_batch, take

from deep_interest.errors import InputError
from deep_interest.models.registry import MODELS, model_config, model_row

SMALL = {"embedding_dim": 3, "embedding_std": 1.0, "hidden": (5, 4), "attention_hidden": (6, 3)}
LENGTHS = [3, 0, 1, 7, 2]
TRAINED = [key for key in MODELS if key != "popularity"]


def build(key, options=None, *, schema=SCHEMA, seed=0):
    torch.manual_seed(seed)
    model = model_row(key).load()(model_config(key, options or {}, common=SMALL), schema).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


REFERENCES = [
    ("lr", {}, reference.lr),
    ("base", {"pooling": "sum"}, lambda p, b, s: reference.base_model(p, b, s, pooling="sum")),
    ("base", {"pooling": "mean"}, lambda p, b, s: reference.base_model(p, b, s, pooling="mean")),
    *(
        (
            "din",
            {"normalize": normalize, "difference": difference},
            lambda p, b, s, n=normalize, d=difference: reference.din(p, b, s, normalize=n, difference=d),
        )
        for normalize in ("none", "softmax")
        for difference in (False, True)
    ),
]


@pytest.mark.parametrize("schema", [SCHEMA, PLAIN_SCHEMA], ids=["all groups", "items only"])
@pytest.mark.parametrize(
    ("key", "options", "expected"), REFERENCES, ids=[f"{k} {o}" for k, o, _ in REFERENCES]
)
def test_logits_agree_with_the_equations(key, options, expected, schema):
    model, batch = build(key, options, schema=schema), random_batch(LENGTHS, schema=schema)
    ours = model(batch).logits.detach().numpy()
    np.testing.assert_allclose(ours, expected(reference.parameters(model), batch, schema), atol=1e-9)


@pytest.mark.parametrize(
    ("key", "options", "expected"), REFERENCES, ids=[f"{k} {o}" for k, o, _ in REFERENCES]
)
def test_gradients_agree_with_finite_differences_of_the_equations(key, options, expected):
    model, batch = build(key, options), random_batch(LENGTHS)
    loss = F.binary_cross_entropy_with_logits(model(batch).logits, batch.labels)
    loss.backward()
    values, labels = reference.parameters(model), batch.labels.numpy()

    def reference_loss():
        z = expected(values, batch, SCHEMA)
        return np.mean(np.logaddexp(0, z) - labels * z)

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
            assert gradient[index] == pytest.approx((up - down) / 2e-5, abs=1e-8), name


@pytest.mark.parametrize("key", TRAINED)
def test_a_samples_score_does_not_depend_on_the_other_samples_or_their_order(key):
    model, batch = build(key).eval(), random_batch(LENGTHS)
    together = model(batch).logits
    order = [4, 1, 3, 0, 2]
    torch.testing.assert_close(model(take(batch, order)).logits, together[order])
    for sample in range(batch.size):
        torch.testing.assert_close(model(take(batch, [sample])).logits[0], together[sample])


@pytest.mark.parametrize("key", TRAINED)
def test_pooled_rows_do_not_see_the_order_of_a_history(key):
    model, batch = build(key).eval(), random_batch([4])
    shuffled = take(batch, [0])
    shuffled.history = {name: codes[[2, 0, 3, 1]] for name, codes in batch.history.items()}
    torch.testing.assert_close(model(shuffled).logits, model(batch).logits)


@pytest.mark.parametrize("key", TRAINED)
@pytest.mark.parametrize("lengths", [[0], [1], [0, 0, 0]])
def test_empty_histories_and_batches_of_one_train(key, lengths):
    model, batch = build(key).train(), random_batch(lengths)
    F.binary_cross_entropy_with_logits(model(batch).logits, batch.labels).backward()
    assert all(
        torch.isfinite(p.grad.coalesce().values() if p.grad.is_sparse else p.grad).all()
        for p in model.parameters()
        if p.grad is not None
    )


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


def test_the_activation_unit_sees_a_behaviours_own_fields_of_the_candidate():
    schema = SCHEMA.model_copy(update={"behavior": SCHEMA.item[1:]})  # behaviours have a category only
    model, batch = build("din", schema=schema), random_batch(LENGTHS, schema=schema)
    other = take(batch, list(range(5)))
    other.candidate = batch.candidate | {"goods": (batch.candidate["goods"] + 1) % 13}
    history = model.embeddings(batch.history, schema.behavior)

    def weigh(b):
        return model.attention(
            history, model._same_fields(model.embeddings(b.candidate, schema.item)), b.segments
        )

    torch.testing.assert_close(weigh(other), weigh(batch))


def test_popularity_ranks_by_positive_training_samples_and_predicts_their_share():
    goods = torch.tensor([1] * 8 + [2] * 8 + [3] * 8, dtype=torch.int32)
    labels = torch.tensor([1] * 6 + [0] * 2 + [1] * 3 + [0] * 5 + [0] * 8, dtype=torch.float32)
    model = build("popularity")
    model.fit({"goods": goods}, labels)
    scores = torch.sigmoid(model.logits)
    assert scores[1] > scores[2] > scores[3] == scores[0]
    assert scores[goods.long()].mean().item() == pytest.approx(labels.mean().item(), abs=1e-4)


def test_an_unknown_row_or_option_is_named():
    with pytest.raises(
        InputError, match="model 'dinn' is not known; the models are popularity, lr, base, din"
    ):
        model_row("dinn")
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
