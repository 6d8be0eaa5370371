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
def user_and_item(project):
    """Ids of a user with behaviours and of an item."""
    tables = project / "data/smoke/02_intermediate/simulated"
    behaviors = pd.read_parquet(tables / "behaviors.parquet")
    return str(behaviors["user"].value_counts().index[0]), str(behaviors["item"].iloc[0])


def test_explain_works_in_any_folder_of_the_project(project, user_and_item, tmp_path):
    user, item = user_and_item
    command = [
        sys.executable, "-m", "deep_interest.commands.main", "explain", "simulated.din", "--user", user, "--candidate", item, "--top", "3",
        "--plot", str(tmp_path / "why.png"), "--env", "smoke",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=project / "conf" / "base",
        env=environment(),
        text=True,
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert f"plot: {tmp_path / 'why.png'}" in done.stdout
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("experiment", "changes", "message"),
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
    project, user_and_item, monkeypatch, capsys, experiment, changes, message
):
    monkeypatch.chdir(project)
    options = {"--user": user_and_item[0], "--candidate": user_and_item[1], "--env": "smoke"} | changes
    assert main(["explain", experiment, *(part for option in options.items() for part in option)]) == 1
    message_line = capsys.readouterr().err
    assert message in message_line
    assert message_line.count("\n") == 1
