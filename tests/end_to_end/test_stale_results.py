"""Commands reject results of older samples."""

import pandas as pd
import pytest
from support.forked import Forked, run
from support.project import copy_project, environment

MODELS = "datasets.simulated.models=base lr"
OLD, NEW = (f"--params={MODELS},simulation.seed={seed},training.seeds=[1]" for seed in (7, 11))


@pytest.mark.nightly
def test_a_report_lists_every_model_trained_on_other_samples(tmp_path):
    project = copy_project(tmp_path / "project")
    trained = run(project, "--pipelines=simulated.base,simulated.lr", OLD)
    assert trained.returncode == 0, trained.stdout
    assert run(project, "--pipelines=report.simulated", OLD).returncode == 0
    assert run(project, "--pipelines=samples.simulated", NEW).returncode == 0
    table = project / "data/smoke/08_reporting/simulated/results.csv"
    before = table.read_bytes()
    stale = run(project, "--pipelines=report.simulated", NEW)
    assert stale.returncode == 1
    assert "error: predictions of lr, base (simulated): made from other samples" in stale.stdout
    assert "`kedro run --pipelines=simulated.lr,simulated.base --env=smoke`" in stale.stdout
    assert "Traceback" not in stale.stdout
    explain = ["explain", "simulated.lr", "--user=1", "--candidate=1", "--env=smoke"]
    rejected = Forked(["deep-interest", *explain], cwd=project, env=environment()).wait()
    assert rejected.returncode == 1
    assert (
        "simulated.lr: the samples, features or behaviours have changed since the checkpoint was trained"
        in rejected.stdout
    )
    assert run(project, "--pipelines=simulated.base", NEW).returncode == 0
    stale = run(project, "--pipelines=report.simulated", NEW)
    assert stale.returncode == 1
    assert "error: predictions of lr (simulated): made from other samples" in stale.stdout
    assert table.read_bytes() == before
    assert run(project, "--pipelines=simulated.lr", NEW).returncode == 0
    fresh = run(project, "--pipelines=report.simulated", NEW)
    assert fresh.returncode == 0, fresh.stdout
    assert {"base", "lr"} <= set(pd.read_csv(table)["model"])


@pytest.mark.nightly
def test_recomputing_equal_samples_keeps_results_valid(tmp_path):
    project = copy_project(tmp_path / "project")
    assert run(project, "--pipelines=simulated.base,simulated.lr", OLD).returncode == 0
    assert run(project, "--pipelines=samples.simulated", OLD).returncode == 0
    done = run(project, "--pipelines=report.simulated", OLD)
    assert done.returncode == 0, done.stdout
