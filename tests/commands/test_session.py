"""Opening the project from its folders and from elsewhere."""

from pathlib import Path

import pytest

from deep_interest.commands.session import open_project, require_dataset, split_experiment
from deep_interest.errors import InputError

PROJECT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_subfolder_opens_the_project(monkeypatch):
    monkeypatch.chdir(PROJECT / "conf" / "base")
    with open_project("smoke") as context:
        assert Path(context.project_path) == PROJECT
        assert require_dataset(context, "simulated").impressions
        with pytest.raises(InputError, match="simulatd is not a dataset; the datasets are simulated, "):
            require_dataset(context, "simulatd")


def test_a_folder_outside_the_project_is_an_error(tmp_path):
    with (
        pytest.raises(InputError, match=f"{tmp_path} is not in a Kedro project"),
        open_project(folder=tmp_path),
    ):
        pass


@pytest.mark.parametrize("name", ["simulated", "simulated.", "simulated.dinn", "simulated.din.mba", ".din_"])
def test_names_without_a_known_model_are_errors(name):
    with pytest.raises(InputError, match=r"expected DATASET\.MODEL"):
        split_experiment(name)


def test_a_tuned_model_is_a_model():
    assert split_experiment("simulated.din_tuned") == ("simulated", "din_tuned")
