"""Results of earlier samples are refused by the commands once the samples are newer."""

import pandas as pd
from support.forked import Forked, new_project, run
from support.project import environment

ROWS = "datasets.simulated.rows=base lr"
OLD, NEW = (f"--params={ROWS},simulation.seed={seed},training.seeds=[1]" for seed in (7, 11))


def test_a_report_names_every_model_that_was_scored_on_other_samples(tmp_path):
    project = new_project(tmp_path / "project")
    both = run(project, "--pipelines=simulated.base,simulated.lr", OLD)
    assert both.returncode == 0, both.stdout
    assert run(project, "--pipelines=report.simulated", OLD).returncode == 0
    assert run(project, "--pipelines=samples.simulated", NEW).returncode == 0
    table = project / "data/smoke/08_reporting/simulated/results.csv"
    before = table.read_bytes()
    stale = run(project, "--pipelines=report.simulated", NEW)
    assert stale.returncode == 1
    assert "error: predictions of lr, base (simulated): made from other samples" in stale.stdout
    assert "`kedro run --pipelines=simulated.lr,simulated.base`" in stale.stdout
    assert "Traceback" not in stale.stdout
    explained = ["explain", "simulated.lr", "--user=1", "--candidate=1", "--env=smoke"]
    refused = Forked(["deep-interest", *explained], cwd=project, env=environment()).wait()
    assert refused.returncode == 1
    assert "simulated.lr: the checkpoint was trained on other samples" in refused.stdout
    assert run(project, "--pipelines=simulated.base", NEW).returncode == 0
    stale = run(project, "--pipelines=report.simulated", NEW)
    assert stale.returncode == 1
    assert "error: predictions of lr (simulated): made from other samples" in stale.stdout
    assert table.read_bytes() == before
    assert run(project, "--pipelines=simulated.lr", NEW).returncode == 0
    fresh = run(project, "--pipelines=report.simulated", NEW)
    assert fresh.returncode == 0, fresh.stdout
    assert {"base", "lr"} <= set(pd.read_csv(table)["model"])


def test_samples_that_are_made_again_alike_leave_results_usable(tmp_path):
    project = new_project(tmp_path / "project")
    assert run(project, "--pipelines=simulated.base,simulated.lr", OLD).returncode == 0
    assert run(project, "--pipelines=samples.simulated", OLD).returncode == 0
    done = run(project, "--pipelines=report.simulated", OLD)
    assert done.returncode == 0, done.stdout
