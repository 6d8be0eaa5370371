"""Kedro's other runners give the table of the default one."""

import pandas as pd
import pytest
from support.project import copy_project, run

pytestmark = pytest.mark.slow

MEASURED = ["train_seconds", "samples_per_second"]


@pytest.mark.nightly
def test_every_runner_gives_the_same_table_and_finds_nothing_missing_afterwards(tmp_path):
    tables = {}
    for runner in ("SequentialRunner", "ThreadRunner", "ParallelRunner"):
        project = copy_project(tmp_path / runner)
        done = run(project, "--pipelines=simulated.fm,simulated.lr", f"--runner={runner}")
        assert done.returncode == 0, done.stdout
        assert "lr (1 of 2), seed 1, epoch" in done.stdout  # the positions are those of the tables
        assert "fm (2 of 2), seed 2, epoch" in done.stdout
        results = pd.read_csv(project / "data/smoke/08_reporting/simulated/lr/results.csv")
        tables[runner] = results.drop(columns=MEASURED)
    assert tables["SequentialRunner"]["seeds"].max() == 2
    pd.testing.assert_frame_equal(tables["ThreadRunner"], tables["SequentialRunner"], check_exact=True)
    pd.testing.assert_frame_equal(tables["ParallelRunner"], tables["SequentialRunner"], check_exact=True)

    again = run(project, "--pipelines=simulated.fm,simulated.lr", "--only-missing-outputs")
    assert again.returncode == 0, again.stdout
    assert "simulated.train" not in again.stdout
