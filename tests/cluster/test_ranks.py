"""Training on several ranks that ``torchrun`` starts: the same losses, parameters and predictions as in one process."""

import numpy as np
import pytest
from support.ranks import train, trained

pytestmark = pytest.mark.cluster
SGD = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 16, "epochs": 8}
ADAM = {"learning_rate": 0.01, "batch_size": 16, "epochs": 3}


def largest_difference(found, expected):
    assert found.keys() == expected.keys()
    return {
        name: float(np.abs(found[name].astype(np.float64) - expected[name]).max(initial=0)) for name in found
    }


def assert_equal(found, expected, *, tolerance):
    difference = largest_difference(found, expected)
    assert max(difference.values()) < tolerance, difference


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("one"), {"models": {"din": {}}, "training": SGD}, ranks=None)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_losses_of_the_first_100_steps_do_not_depend_on_the_ranks(tmp_path, one_process, ranks):
    found = trained(tmp_path, {"models": {"din": {}}, "training": SGD}, ranks=ranks)
    assert len(found["din"]["losses"]) > 100
    assert_equal(found["din"], one_process["din"], tolerance=1e-5)


VARIANTS = {
    "din": {"training": {"mba": 0.05, "difacto": 0.001}},
    "din_mba": {"training": {"mba": 0.1, "l2": 0.01, "gradient_norm": 0.05, "decoupled": True}},
    "din_dice": {"activation": "dice", "attention_activation": "dice"},
    "base": {"batch_norm": True, "training": {"optimizer": "sgd"}},  # Adam would amplify the rounding of gradients that are 0
    "pnn": {"interest_product": True},
    "reg_filter": {"keep_top": 10, "training": {"shuffle": "requests"}},
    "din_softmax": {"match_counts": True, "item_bias": True, "training": {"batch_size": 3, "epochs": 1}},
    "lr": {},
    "fm": {"training": {"l2": 0.01, "updated_rows": "all"}},
    "asvd": {},
    "wide_deep": {},
    "sim_hard": {"search": "category"},
    "din_distilled": {"booster": "frozen"},
}  # fmt: skip


@pytest.mark.parametrize(
    "data", ["plain", *(pytest.param(data, marks=pytest.mark.nightly) for data in ("tags", "prices"))]
)
def test_every_penalty_and_kind_of_layer_gives_the_result_of_one_process(tmp_path, data):
    models = VARIANTS if data == "plain" else {name: VARIANTS[name] for name in ("din", "lr", "fm")}
    settings = {"models": models, "training": ADAM, "data": data}
    expected = trained(tmp_path / "one", settings, ranks=None)
    found = trained(tmp_path / "two", settings, ranks=2)
    for model in models:
        assert_equal(found[model], expected[model], tolerance=2e-5)


@pytest.mark.nightly
def test_models_that_draw_at_random_learn_as_well_as_in_one_process(tmp_path):
    """Negatives and dropout differ; their effect on the loss is that of another seed."""
    models = {"dien": {"evolution": "augru", "aux_weight": 1.0}, "dmin": {}, "bst": {}}
    settings = {"models": models, "training": {"epochs": 6}}
    one, other_seed, two = (
        trained(tmp_path / name, settings | {"seed": seed}, ranks=ranks)
        for name, seed, ranks in (("one", 1, None), ("other", 2, None), ("two", 1, 2))
    )
    for model in models:
        last = {
            name: run[model]["losses"][-20:].mean()
            for name, run in (("one", one), ("other", other_seed), ("two", two))
        }
        assert abs(last["two"] - last["one"]) < 0.02 + abs(last["other"] - last["one"])
        assert last["two"] < two[model]["losses"][:5].mean()


def test_models_in_closed_form_are_fitted_by_rank_0(tmp_path):
    settings = {"models": {"popularity": {}, "item_knn": {}}}
    expected, found = (trained(tmp_path / str(ranks), settings, ranks=ranks) for ranks in (None, 2))
    for model in expected:
        assert_equal(found[model], expected[model], tolerance=1e-12)


def test_tables_that_do_not_fit_into_memory_are_one_error(tmp_path):
    process = train(tmp_path, {"models": {"din": {"embedding_dim": 10**9}}}, ranks=2)
    assert process.returncode
    assert "embedding tables and their moments take" in process.stdout
    assert "start more ranks on more machines" in process.stdout
