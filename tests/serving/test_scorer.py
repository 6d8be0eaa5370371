import pytest
import torch
from support.batches import PLAIN_SCHEMA, SCHEMA, random_batch, take

from deep_interest.errors import InputError
from deep_interest.models.registry import MODELS, build_model, model_config
from deep_interest.serving.scorer import Scorer

ROWS = [
    key for key, row in MODELS.items() if key != "boosted" and not row.ablation
]  # boosted has no trees yet
COMMON = {"embedding_dim": 4, "embedding_std": 1.0}


def make(key, schema):
    torch.manual_seed(0)
    return build_model(key, model_config(key, {}, common=COMMON), schema).eval()


@pytest.mark.parametrize("schema", [SCHEMA, PLAIN_SCHEMA], ids=["all groups", "items only"])
@pytest.mark.parametrize("length", [0, 1, 7])
@pytest.mark.parametrize("key", ROWS)
def test_candidates_scored_together_equal_samples_scored_alone(key, length, schema):
    model, whole = make(key, schema), random_batch([length] * 5, schema=schema)
    user = take(whole, [0])
    scores = Scorer(model)(user.history, whole.candidate, profile=user.profile, context=whole.context)
    for b in range(5):
        alone = take(whole, [b])
        alone.history, alone.profile = user.history, user.profile
        torch.testing.assert_close(
            scores[b : b + 1], torch.sigmoid(model(alone).logits).detach(), atol=1e-6, rtol=1e-5
        )


def test_single_context_applies_to_all_candidates():
    model, batch = make("din", SCHEMA), random_batch([3, 3])
    one = {"hour": torch.tensor([2], dtype=torch.int32)}
    both = {"hour": torch.tensor([2, 2], dtype=torch.int32)}
    user = take(batch, [0])
    scores = [
        Scorer(model)(user.history, batch.candidate, profile=user.profile, context=context)
        for context in (one, both)
    ]
    assert torch.equal(*scores)


@pytest.mark.parametrize("key", ["din", "dien", "base_matches"])
def test_codes_are_copied_to_the_device_of_the_model(key):
    batch = random_batch([3, 3])
    user, model = take(batch, [0]), make(key, SCHEMA)
    moved, here = Scorer(model, device=torch.device("cpu")), Scorer(model)
    scores = [
        of(user.history, batch.candidate, profile=user.profile, context=batch.context) for of in (moved, here)
    ]
    assert torch.equal(*scores)
    request = (user.history, batch.candidate, user.profile, batch.context)
    assert torch.equal(moved.together([request, request]), here.together([request, request]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"history": {}}, "history: the model needs item_id, category; found none"),
        ({"profile": {}}, "profile: the model needs gender"),
        (
            {"context": {"hour": torch.zeros(3, dtype=torch.int32)}},
            r"context: expected one code, or one per candidate \(2\); found 3",
        ),
        (
            {"candidates": {"item_id": torch.zeros(2), "category": torch.zeros(1)}},
            "candidates: all fields must have the same number of codes",
        ),
    ],
)
def test_invalid_input_is_reported(change, message):
    batch = random_batch([3, 3])
    user = take(batch, [0])
    arguments = {
        "history": user.history,
        "candidates": batch.candidate,
        "profile": user.profile,
        "context": batch.context,
    }
    with pytest.raises(InputError, match=message):
        Scorer(make("din", SCHEMA))(**(arguments | change))


@pytest.mark.parametrize(
    ("group", "field", "size"),
    [
        ("history", "item_id", 13), ("history", "category", 5), ("candidates", "item_id", 13), ("candidates", "category", 5),
        ("profile", "gender", 3), ("context", "hour", 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", ["din", "dien", "lr"])
def test_code_outside_its_table_is_reported(key, group, field, size):
    batch = random_batch([3, 3])
    user, scorer = take(batch, [0]), Scorer(make(key, SCHEMA))
    codes = {
        "history": user.history,
        "candidates": batch.candidate,
        "profile": user.profile,
        "context": batch.context,
    }
    for code in (size, 1_000, 50_000, 400_000_000, -1):
        bad = codes[group][field].clone()
        bad[-1] = code
        with pytest.raises(InputError, match=rf"{group}: {field}: code {code} at .* table of {size} rows"):
            scorer(**(codes | {group: codes[group] | {field: bad}}))
    assert scorer(**codes).isfinite().all()
