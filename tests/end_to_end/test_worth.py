"""``worth.<dataset>``: a real run, and a second one that fits nothing again."""

import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project


@pytest.mark.nightly
def test_curves_of_the_simulated_shop(tmp_path):
    project = copy_project(tmp_path / "project")
    arguments = ("--pipelines=worth.simulated", "--params=evaluation.minimum_users=5,evaluation.minimum_positives=5,training.processes=1")  # fmt: skip
    first = run(project, *arguments)
    assert first.returncode == 0, first.stdout
    assert "worth of data for DIN" in first.stdout
    folder = project / "data/smoke/08_reporting/simulated/worth"
    table = pd.read_csv(folder / "results.csv")
    assert table["axis"].drop_duplicates().tolist() == ["days", "max_len", "embedding_dim"]
    assert table["difference_low"].notna().tolist() == [True, False] * 3
    assert {"results.md", "curves.png", "fits.csv"} <= {path.name for path in folder.iterdir()}
    states = {path: path.stat().st_mtime_ns for path in project.rglob("din_worth/*/seed_*.pt")}
    assert len(states) == 4 * 2
    again = run(project, *arguments)
    assert again.returncode == 0, again.stdout
    assert {path: path.stat().st_mtime_ns for path in states} == states
    pd.testing.assert_frame_equal(pd.read_csv(folder / "results.csv"), table)
