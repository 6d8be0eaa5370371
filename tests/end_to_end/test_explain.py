"""The command ``deep-interest explain`` with a trained model and with invalid requests."""

import subprocess
import sys

import pandas as pd
import pytest
from support.project import copy_project, environment, run

from deep_interest.commands.main import main


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_project(tmp_path_factory.mktemp("explain") / "project")
    done = run(project, "--pipelines=simulated.din", "--params=training.seeds=1")
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture(scope="module")
def shown(project):
    """A user with behaviours, and an item, by the source's ids."""
    tables = project / "data/smoke/02_intermediate/simulated"
    behaviors = pd.read_parquet(tables / "behaviors.parquet")
    return str(behaviors["user"].value_counts().index[0]), str(behaviors["item"].iloc[0])


def test_explain_prints_a_table_and_writes_a_plot_from_any_folder_of_the_project(project, shown, tmp_path):
    user, item = shown
    command = [
        sys.executable, "-m", "deep_interest.commands.main", "explain", "simulated.din", "--user", user, "--candidate", item, "--top", "3",
        "--plot", str(tmp_path / "why.png"), "--env", "smoke",
    ]  # fmt: skip
    found = subprocess.run(
        command,
        cwd=project / "conf" / "base",
        env=environment(),
        text=True,
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    assert f"plot: {tmp_path / 'why.png'}" in found.stdout
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        ("simulated.din", {"--user": "nobody"}, "nobody"),
        ("simulated.din", {"--plot": "why.jpg"}, "--plot: found why.jpg, expected a file name that ends in .png"),
        ("simulated.din", {"--plot": "/proc/none/why.png"}, "/proc/none/why.png: the plot cannot be written"),
        ("simulated.din_mba_tuned", {}, "train it with `kedro run --pipelines=tuned.simulated.din_mba`"),
        ("simulated.dinn", {}, "'simulated.dinn': expected DATASET.MODEL"),
        ("simulatd.din", {}, "simulatd is not a dataset; the datasets are"),
        ("simulated.din", {"--env": "nonsense"}, "--env: nonsense is not an environment"),
    ],
)  # fmt: skip
def test_invalid_requests_are_reported_in_one_line(
    project, shown, monkeypatch, capsys, row, changes, message
):
    monkeypatch.chdir(project)
    wanted = {"--user": shown[0], "--candidate": shown[1], "--env": "smoke"} | changes
    assert main(["explain", row, *(part for pair in wanted.items() for part in pair)]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
