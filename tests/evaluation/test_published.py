"""Published metrics: keys are known, values agree with the papers, and protocols are never mixed."""

import pytest

from deep_interest.evaluation.metrics import rela_impr
from deep_interest.evaluation.published import BARS, DIEN, DIN, DIN_CORRECTED, PUBLISHED, published_metrics
from deep_interest.models.registry import MODELS


def values_of(dataset, protocol, source, metric="gauc"):
    return {
        model: published.value
        for model, metrics in published_metrics(dataset, protocol).items()
        for published in metrics
        if published.source == source and published.metric == metric
    }


def test_model_and_dataset_keys_exist():
    assert {model for _, _, model in PUBLISHED} <= set(MODELS)
    assert {(dataset, protocol) for dataset, protocol, _ in PUBLISHED} == {
        ("movielens_20m", "rated"),
        ("amazon_electronics", "next_item"),
        ("amazon_electronics", "last_item"),
        ("amazon_books", "last_item"),
    }


@pytest.mark.parametrize(
    ("dataset", "protocol", "printed"),
    [
        ("movielens_20m", "rated", [-1.61, 0.00, 0.17, 0.91, 1.04, 1.61, 2.09]),
        ("amazon_electronics", "next_item", [-24.34, 0.00, 0.36, 1.52, 1.63, 5.35, 6.82]),
    ],
)
def test_dins_gauc_values_give_the_printed_rela_impr(dataset, protocol, printed):
    values = values_of(dataset, protocol, DIN)
    models = ["lr", "base", "wide_deep", "pnn", "deepfm", "din", "din_dice"]
    assert [rela_impr(values[model], values["base"]) for model in models] == pytest.approx(printed, abs=0.015)


def test_the_authors_correction_gives_its_printed_rela_impr():
    corrected = values_of("amazon_electronics", "next_item", DIN_CORRECTED)
    assert rela_impr(corrected["din"], 0.8624) == pytest.approx(2.04, abs=0.015)
    assert rela_impr(corrected["din_dice"], 0.8624) == pytest.approx(2.40, abs=0.015)


def test_protocols_of_amazon_electronics_are_kept_apart():
    assert not values_of("amazon_electronics", "last_item", DIN)
    assert not values_of("amazon_electronics", "next_item", DIEN, "auc")
    assert values_of("amazon_electronics", "last_item", DIEN, "auc")["dien"] == 0.9030


def test_bars_has_gauc_and_auc():
    assert values_of("amazon_electronics", "next_item", BARS)["dmin"] == 0.885636
    assert values_of("amazon_electronics", "next_item", BARS, "auc")["dmin"] == 0.887665


def test_dataset_without_published_metrics_has_none():
    assert published_metrics("amazon_beauty", "next_item") == {}
