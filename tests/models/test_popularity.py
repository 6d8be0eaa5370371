"""The closed-form baselines: exact values, their bounds, and what they refuse."""

import math

import pytest
import torch
from support.batches import SCHEMA, random_batch
from support.training_samples import SamplesInMemory

from deep_interest.errors import InputError
from deep_interest.models.popularity import prior_strength
from deep_interest.models.registry import build_model, model_config


def fitted(key, item_ids, labels):
    model = build_model(key, model_config(key, {}), SCHEMA).double()
    model.fit(SamplesInMemory({"item_id": item_ids}, {}, labels))
    return model.logits


def logit(p):
    return math.log(p / (1 - p))


def test_two_popularities_are_fitted_exactly():
    """Item 1 has 3 positives of 4, item 2 has 1 of 4: slope and intercept meet logit(3/4) at log 4 and logit(1/4) at log 2."""
    logits = fitted("popularity", [1] * 4 + [2] * 4, [1, 1, 1, 0, 1, 0, 0, 0])
    slope = 2 * math.log(3) / math.log(2)
    assert logits[1].item() == pytest.approx(math.log(3), abs=1e-6)
    assert logits[2].item() == pytest.approx(-math.log(3), abs=1e-6)
    assert logits[[0, 3, 12]].tolist() == pytest.approx([-math.log(3) - slope * math.log(2)] * 3, abs=1e-5)
    assert len(logits) == 13


def test_the_slope_of_popularity_stays_positive_where_popular_items_are_clicked_less_often():
    """Item 1 has 10 positives of 100, item 2 has 5 of 5: the likeliest slope is negative, the order stays popularity's."""
    logits = fitted("popularity", [1] * 100 + [2] * 6, [1] * 10 + [0] * 90 + [1] * 5 + [0])
    assert (logits[1] - logits[2]).item() == pytest.approx(1e-6 * math.log(11 / 6), rel=1e-6)


def test_labels_that_are_all_alike_have_a_rate_of_one_in_a_million_or_all_but_that():
    for label, rate in ((0, 1e-6), (1, 1 - 1e-6)):
        logits = fitted("item_rate", [1, 1, 2], [label] * 3)
        assert logits.tolist() == pytest.approx([logit(rate)] * 13, rel=1e-3)


def test_the_strength_by_hand_with_items_of_different_sizes_and_items_without_samples():
    """n = 2, 4, 6; k = 2, 1, 0; m = 1/4, S = 2 (3/4)² + 4 · 0 + 6 (1/4)² = 1.5, S / (m (1 - m)) = 8.

    ρ = (8 - 2) / (1 · 10/12 + 3 · 8/12 + 5 · 6/12) = 6 / (16 / 3) = 1.125, and a would be below its bound 1.
    With n = 20, 40, 60; k = 8, 10, 12: m = 1/4, S = 20 (0.15)² + 0 + 60 (0.05)² = 0.6, S / (m (1 - m)) = 3.2.
    ρ = (3.2 - 2) / (19 · 100/120 + 39 · 80/120 + 59 · 60/120) = 1.2 / 71.3333, so a = 71.3333 / 1.2 - 1 = 58.444444.
    """
    assert prior_strength(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([2.0, 4.0, 6.0])) == 1.0
    positives, samples = torch.tensor([0.0, 8.0, 10.0, 0.0, 12.0]), torch.tensor([0.0, 20.0, 40.0, 0.0, 60.0])
    assert prior_strength(positives.double(), samples.double()) == pytest.approx(58.444444, abs=1e-5)


@pytest.mark.parametrize("key", ["popularity", "item_rate"])
def test_a_batch_has_the_logits_of_its_candidates(key):
    model = build_model(key, model_config(key, {}), SCHEMA)
    model.logits.copy_(torch.arange(13.0))
    batch = random_batch([3, 0, 1])
    output = model(batch)
    assert output.logits.tolist() == batch.candidate["item_id"].tolist()
    assert output.auxiliary_loss is None


@pytest.mark.parametrize("key", ["popularity", "item_rate"])
def test_without_items_there_is_nothing_to_count(key):
    message = f"^features.item: {key} counts item_id, but the item fields are category; add item_id, or remove {key} from models$"
    with pytest.raises(InputError, match=message):
        build_model(
            key,
            model_config(key, {}),
            SCHEMA.model_copy(update={"item": SCHEMA.item[1:], "behavior": SCHEMA.item[1:]}),
        )


@pytest.mark.parametrize("key", ["popularity", "item_rate"])
def test_the_fit_is_on_the_labels_device(key):
    """With ``meta`` as the default, a tensor whose device nobody names would not go together with the labels."""
    item_ids, labels = [1] * 4 + [2] * 4, [1, 1, 1, 0, 1, 0, 0, 0]
    expected = fitted(key, item_ids, labels)
    model = build_model(key, model_config(key, {}), SCHEMA).double()
    samples = SamplesInMemory({"item_id": item_ids}, {}, labels)
    with torch.device("meta"):
        model.fit(samples)
    assert torch.equal(model.logits, expected)
