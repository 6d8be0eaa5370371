"""The documented commands that read what runs have written are executed in a project where the runs have been made."""

import re

import pytest
from support.documented_commands import documented_commands
from support.forked import Forked
from support.project import copy_project, environment

RUNS = (
    ("--pipelines=simulated.din,simulated.dien",),
    ("--pipelines=simulate_days", "--params=backtest.log.corrupted_day=null"),
    ("--pipelines=retrain.simulated.din",),
)
EXECUTED = ("check", "explain", "export", "registry", "results")
OTHER_DATASETS = re.compile(r"my_shop|amazon_|radio")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Project with two trained models, their history and a model version."""
    project = copy_project(tmp_path_factory.mktemp("documented") / "project")
    for arguments in RUNS:
        done = call(project, "kedro", "run", *arguments)
        assert done.returncode in (0, 11), done.stdout  # 11: refused, which the tiny shop may be
    return project


def call(project, *arguments):
    return Forked([*arguments, "--env=smoke"], cwd=project, env=environment()).wait()


def documented(*beginnings):
    """Return the documented commands with an argument that begin so, without those on a reader's own dataset."""
    words = dict.fromkeys(command.words for command in documented_commands())
    return [
        line
        for line in words
        if any(line[: len(start)] == start for start in beginnings)
        and len(line) > 2
        and not OTHER_DATASETS.search(" ".join(line))
    ]


@pytest.mark.nightly
def test_documented_commands_of_deep_interest_succeed(project):
    listed = call(project, "deep-interest", "registry", "list", "simulated.din").stdout
    (version,) = re.findall(r"2024-03-\d\d-[0-9a-f]{8}", listed)
    history = (project / "data/smoke/08_reporting/simulated/history.csv").read_text()
    first_run = history.splitlines()[1].partition(",")[0]
    promoted = call(project, "deep-interest", "registry", "promote", "simulated.din", version)
    assert promoted.returncode == 0, promoted.stdout
    commands = documented(
        *[("deep-interest", name) for name in EXECUTED], ("kedro", "deep-interest", "check")
    )
    executed = 0
    for words in commands:
        line = re.sub(r"2024-03-\d\d-[0-9a-f]{8}", version, " ".join(words))
        line = re.sub(r"2026-\d\d-\d\d", first_run, line)  # runs of the reader
        incomplete = line in ("deep-interest explain simulated.din", "deep-interest registry promote")
        is_rollback = "rollback" in line  # there is one version only
        if incomplete or is_rollback:
            continue
        if "--candidate" in line:
            line = " ".join([*line.split(" --")[:1], *sample_arguments(project)])
        done = call(project, *line.split())
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        executed += 1
    assert executed >= 7


def sample_arguments(project):
    """Return user and candidate of the command that the last run recommends."""
    import pandas as pd

    data = project / "data/smoke"
    row = pd.read_parquet(data / "07_model_output/simulated/dien/predictions.parquet").iloc[0]
    ids = {
        kind: pd.read_parquet(data / f"03_primary/simulated/{kind}_ids.parquet")["id"].iloc[
            int(row[kind]) - 1
        ]
        for kind in ("user", "item")
    }
    return ["--user", str(ids["user"]), "--candidate", str(ids["item"])]


@pytest.mark.nightly
def test_documented_commands_that_list_pipelines_succeed(project):
    listed = Forked(["kedro", "registry", "list"], cwd=project, env=environment()).wait()
    assert listed.returncode == 0, listed.stdout
    assert "simulated.din" in listed.stdout
    for words in documented(("kedro", "catalog")):  # what they print: `test_kedro_tools.py`
        done = call(project, *words)
        assert done.returncode == 0, f"{words}\n{done.stdout}"
