"""What a trained model costs: counts by hand, and a time of scoring."""

import pytest
from support.training import CATEGORIES, ITEMS, small_data

from deep_interest.analysis.cost import model_cost
from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import train_experiment

pytestmark = pytest.mark.slow
DATA = small_data()


def cost(model, folder, **options):
    recipe = Recipe(
        training={"epochs": 1, "batch_size": 64}, model={"embedding_dim": 4, "hidden": [8, 4], "attention_hidden": [8]}
    )  # fmt: skip
    run = RunParameters(workspace=str(folder), processes=1, device="cpu")
    checkpoint, _ = train_experiment(Experiment("shop", model, RowOptions(options), recipe, (1,), run), DATA)
    return model_cost(checkpoint, run, DATA)


def test_popularity_has_a_number_per_item(tmp_path):
    found = cost("popularity", tmp_path)
    assert (found.parameters, found.bytes) == (0, 4 * (ITEMS + 1))
    assert found.microseconds > 0


def test_base_model_has_its_tables_and_layers(tmp_path):
    tables = (ITEMS + 1 + CATEGORIES + 1) * 4
    inputs = 4 * 4  # two fields of the candidate, two of the history
    layers = (inputs * 8 + 8) + (8 * 4 + 4) + (4 + 1)
    slopes = 8 + 4  # of PReLU
    found = cost("base", tmp_path)
    assert found.parameters == tables + layers + slopes
    assert found.bytes == 4 * found.parameters


def test_what_only_training_needs_costs_nothing(tmp_path):
    assert cost("din_light", tmp_path).bytes == cost("din_light_alone", tmp_path, booster="none").bytes
