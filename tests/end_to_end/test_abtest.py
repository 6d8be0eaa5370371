"""The read-out of an A/B test from a CSV file: ``kedro run --pipelines=abtest.<test>``."""

import numpy as np
import pandas as pd
from abtest_log import Setting, simulate
from support.forked import run
from support.project import copy_project


def test_a_log_gives_table_plots_and_verdict(tmp_path):
    project, raw = copy_project(tmp_path / "project"), tmp_path / "raw/example_abtest"
    raw.mkdir(parents=True)
    log = simulate(np.random.default_rng(0), Setting(users=2500, days=8, pre_days=7, lift=0.5)).frame()
    log.to_csv(raw / "exposures.csv", index=False)
    completed = run(project, "--pipelines=abtest.example", raw=tmp_path / "raw")
    assert completed.returncode == 0, completed.stdout
    folder = project / "data/smoke/08_reporting/abtests/example"
    results = pd.read_csv(folder / "results.csv").set_index("metric")
    sums = log[log["variant"] != ""].groupby("variant")[["shown", "clicked", "paid"]].sum()
    users = log[log["variant"] != ""].groupby("variant")["customer"].nunique()
    assert results.loc["ctr", ["users", "control_users"]].tolist() == users[["din", "base"]].tolist()
    for metric, values in {
        "ctr": sums["clicked"] / sums["shown"],
        "rpm": 1000 * sums["paid"] / sums["shown"],
        "revenue_per_user": sums["paid"] / users,
    }.items():
        assert np.allclose(
            results.loc[metric, ["value", "control_value"]].astype(float), values[["din", "base"]]
        )
        assert np.isclose(results.loc[metric, "plain_lift"], values["din"] / values["base"] - 1)
    assert 0.3 < results.loc["ctr", "lift"] < 0.7
    assert (results["variance_removed"] > 0).all()
    verdict = f"CTR is {results.loc['ctr', 'lift']:.1%} higher with din than with base"
    for page in ("results.md", "report.html"):
        assert verdict in (folder / page).read_text()
    assert verdict in completed.stdout
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in ("metrics", "days", "novelty"))
    assert len(pd.read_csv(folder / "by_day.csv")["day"].unique()) == 8


def test_an_invalid_log_is_one_message(tmp_path):
    project, raw = copy_project(tmp_path / "project"), tmp_path / "raw/example_abtest"
    raw.mkdir(parents=True)
    rows = "2026-03-02,a,base,1,1,-2\n2026-03-02,b,din,1,0,0\n"
    (raw / "exposures.csv").write_text(f"day,customer,variant,shown,clicked,paid\n{rows}")
    completed = run(project, "--pipelines=abtest.example", raw=tmp_path / "raw")
    assert completed.returncode == 1
    message = "exposures.csv, column paid (exposures.revenue): found 1 invalid value(s), for example '-2'"
    assert message in completed.stdout.splitlines()[-1]
    assert "Traceback" not in completed.stdout
    missing = run(project, "--pipelines=abtest.exampel", raw=tmp_path / "raw")
    assert "abtest.exampel is not a pipeline" in missing.stdout
    assert "did you mean abtest.example" in missing.stdout
