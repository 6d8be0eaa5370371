"""The command ``deep-interest explain`` on a trained row, and on what it cannot explain."""

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


def test_a_prediction_comes_as_a_table_and_a_picture(project, shown, tmp_path):
    user, item = shown
    command = [
        sys.executable, "-m", "deep_interest.commands.main", "explain", "simulated.din", "--user", user, "--candidate", item, "--top", "3",
        "--picture", str(tmp_path / "why.png"), "--env", "smoke",
    ]  # fmt: skip
    found = subprocess.run(
        command, cwd=project, env=environment(), text=True, check=False, capture_output=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
    assert f"picture: {tmp_path / 'why.png'}" in found.stdout
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        ("simulated.din", {"--user": "nobody"}, "nobody"),
        ("simulated.din", {"--picture": "why.jpg"}, "--picture: found why.jpg, expected a file that ends in .png"),
        ("simulated.din", {"--picture": "/proc/none/why.png"}, "/proc/none/why.png: the picture cannot be written"),
        ("simulated.din_mba_tuned", {}, "train it by `kedro run --pipelines=tuned.simulated.din_mba`"),
        ("simulated.dinn", {}, "'simulated.dinn': expected DATASET.MODEL"),
        ("simulated.din", {"--env": "nonsense"}, "--env: nonsense is no environment"),
    ],
)  # fmt: skip
def test_what_cannot_be_explained_is_one_line(project, shown, monkeypatch, capsys, row, changes, message):
    monkeypatch.chdir(project)
    wanted = {"--user": shown[0], "--candidate": shown[1], "--env": "smoke"} | changes
    assert main(["explain", row, *(part for pair in wanted.items() for part in pair)]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
