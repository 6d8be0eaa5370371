"""A simulated A/B test as one command: ``kedro run --pipelines=abtest.simulated``."""

import numpy as np
import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project


@pytest.mark.nightly
def test_models_serve_the_shop_and_the_pages_compare_them_with_the_truth(tmp_path):
    project = copy_project(tmp_path / "project")
    completed = run(project, "--pipelines=abtest.simulated")
    assert completed.returncode == 0, completed.stdout
    folder = project / "data/smoke/08_reporting/abtests/simulated"
    regret = pd.read_csv(folder / "regret.csv").set_index("arm")
    assert sorted(regret.index) == ["base", "dien", "din"]
    assert (regret["versions"] > 0).all()
    assert ((regret["value_regret"] > 0) & (regret["value_regret"] < 0.6)).all()
    results = pd.read_csv(folder / "results.csv").set_index(["metric", "arm"])
    days = sorted(
        (project / "data/smoke/06_models/abtests/simulated/test/days").glob("*/impressions.parquet")
    )
    shown = pd.concat([pd.read_parquet(path) for path in days[4:]]).groupby("arm")
    clicks, revenue, size = shown["label"].sum(), shown["price"].sum(), shown.size()
    for arm in ("din", "dien"):
        assert results.loc[("ctr", arm), "value"] == pytest.approx(clicks[arm] / size[arm])
        assert results.loc[("rpm", arm), "value"] == pytest.approx(1000 * revenue[arm] / size[arm])
    truth = pd.read_csv(folder / "truth.csv").query("arm != 'base'")
    assert np.isfinite(truth["true_lift"]).all()
    for heading in ("The papers' A/B tests", "Regret", "A/A test", "True lifts and interference"):
        assert f"## {heading}" in (folder / "simulation.md").read_text()
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in ("metrics", "days", "novelty"))
