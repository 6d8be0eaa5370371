"""Off-policy evaluation from files by configuration alone: ``kedro run --pipelines=ope.<evaluation>``."""

import json

import numpy as np
import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project

from deep_interest.offpolicy import evaluate
from deep_interest.offpolicy.assembly import assemble
from deep_interest.offpolicy.parameters import OffPolicyParameters
from deep_interest.sources.tables.decisions import read_decisions

ITEMS, SLOTS = 6, 3
RATE = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4])
EXAMINATION = np.array([1.0, 0.8, 0.6])
SHARES = np.array(
    [[0.05, 0.05, 0.1, 0.2, 0.2, 0.4], [0.1, 0.1, 0.1, 0.2, 0.3, 0.2], [0.2, 0.2, 0.2, 0.1, 0.2, 0.1]]
)


def write_open_bandit(folder, rows=6000):
    """Write logs in the layout of the Open Bandit Dataset: a random policy, and one with fixed shares by position."""
    logs = {}
    for number, (policy, shares) in enumerate(
        {"random": np.full((SLOTS, ITEMS), 1 / ITEMS), "bts": SHARES}.items()
    ):
        rng = np.random.default_rng(number)
        position = rng.integers(1, SLOTS + 1, rows)
        item = np.array([rng.choice(ITEMS, p=shares[slot - 1]) for slot in position])
        click = (rng.random(rows) < RATE[item] * EXAMINATION[position - 1]).astype(int)
        table = {
            "timestamp": "2019-11-24 00:00:00.004101+00:00", "item_id": item, "position": position, "click": click,
            "propensity_score": shares[position - 1, item],
        }  # fmt: skip
        table |= {f"user_feature_{k}": "cef3390ed299c09874189c387777674a" for k in range(4)}
        table |= {f"user-item_affinity_{k}": 0.0 for k in range(ITEMS)}
        path = folder / policy / "all" / "all.csv"
        path.parent.mkdir(parents=True)
        logs[policy] = pd.DataFrame(table)
        logs[policy].to_csv(path)  # with a column without a name, as the original
        pd.DataFrame({"item_id": range(ITEMS), "item_feature_0": 0.0}).to_csv(
            path.with_name("item_context.csv")
        )
    return logs


def test_the_open_bandit_layout_from_files_to_an_estimate(tmp_path):
    project = copy_project(tmp_path / "project")
    logs = write_open_bandit(tmp_path / "raw/open_bandit_dataset")
    completed = run(project, "--pipelines=ope.open_bandit", raw=tmp_path / "raw")
    assert completed.returncode == 0, completed.stdout
    folder = project / "data/smoke/08_reporting/ope/open_bandit"
    results = pd.read_csv(folder / "results.csv").set_index("estimator")
    assert list(results.index) == ["ips", "snips", "dr", "switch_dr"]
    random, bts = logs["random"], logs["bts"]
    share = bts.groupby("position")["item_id"].value_counts(normalize=True)
    weight = ITEMS * share.loc[pd.MultiIndex.from_frame(random[["position", "item_id"]])].to_numpy()
    assert results.loc["ips", "value"] == pytest.approx((weight * random["click"]).mean())
    assert results.loc["snips", "value"] == pytest.approx((weight * random["click"]).sum() / weight.sum())
    truth = (SHARES * RATE * EXAMINATION[:, None]).sum(axis=1).mean()
    assert (results["low"] < truth).all()
    assert (results["high"] > truth).all()
    assert (results["difference_low"] > 0).all()  # the policy with shares earns more
    checks = json.loads((folder / "checks.json").read_text())
    assert checks["target_reward"] == pytest.approx(bts["click"].mean())
    assert checks["refusals"] == []
    sentence = "bts would have earned more than random"
    assert all(sentence in (folder / page).read_text() for page in ("results.md", "report.html"))
    assert sentence in completed.stdout
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in ("estimates", "weights"))


def test_the_random_policy_is_evaluated_on_the_log_of_the_other(tmp_path):
    logs = write_open_bandit(tmp_path)
    of = {"item": "item_id", "slot": "position", "propensity": "propensity_score"}
    source = {"log": of | {"files": "bts/all/all.csv"}, "target_log": of | {"files": "random/all/all.csv"}}
    settings = OffPolicyParameters.model_validate({"title": "Random", "source": source})
    tables = read_decisions(tmp_path, settings.source, on_bad_line="error")
    assembled = assemble(tables, settings)
    found = evaluate(assembled.decisions, unseen=assembled.unseen)
    truth = (RATE * EXAMINATION[:, None]).mean()
    assert (found.results["low"] < truth).all()
    assert (found.results["high"] > truth).all()
    assert (found.results["difference_high"] < 0).all()
    assert found.checks["refusals"] == []
    assert assembled.target_reward == pytest.approx(logs["random"]["click"].mean())
