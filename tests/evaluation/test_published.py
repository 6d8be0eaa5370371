"""The published table: keys are known, values possible, and protocols never mixed."""

import pytest

from deep_interest.evaluation.metrics import rela_impr
from deep_interest.evaluation.published import BARS, DIEN, DIN, DIN_CORRECTED, PUBLISHED, published_metrics
from deep_interest.models.registry import MODELS


def figures_of(dataset, protocol, source, metric="gauc"):
    return {
        model: figure.value
        for model, figures in published_metrics(dataset, protocol).items()
        for figure in figures
        if figure.source == source and figure.metric == metric
    }


def test_keys_are_those_of_the_grid():
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
def test_dins_figures_give_the_rela_impr_printed_beside_them(dataset, protocol, printed):
    figures = figures_of(dataset, protocol, DIN)
    rows = ["lr", "base", "wide_deep", "pnn", "deepfm", "din", "din_dice"]
    assert [rela_impr(figures[row], figures["base"]) for row in rows] == pytest.approx(printed, abs=0.015)


def test_the_authors_correction_stands_beside_the_paper_and_gives_its_rela_impr():
    corrected = figures_of("amazon_electronics", "next_item", DIN_CORRECTED)
    assert rela_impr(corrected["din"], 0.8624) == pytest.approx(2.04, abs=0.015)
    assert rela_impr(corrected["din_dice"], 0.8624) == pytest.approx(2.40, abs=0.015)


def test_dins_and_diens_electronics_are_kept_apart():
    assert not figures_of("amazon_electronics", "last_item", DIN)
    assert not figures_of("amazon_electronics", "next_item", DIEN, "auc")
    assert figures_of("amazon_electronics", "last_item", DIEN, "auc")["dien"] == 0.9030


def test_the_open_benchmark_gives_both_metrics():
    assert figures_of("amazon_electronics", "next_item", BARS)["dmin"] == 0.885636
    assert figures_of("amazon_electronics", "next_item", BARS, "auc")["dmin"] == 0.887665


def test_datasets_without_published_figures_have_none():
    assert published_metrics("amazon_beauty", "next_item") == {}
