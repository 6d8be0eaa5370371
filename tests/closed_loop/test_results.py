"""Regret, true lifts and interference from tables that are small enough to calculate by hand, and the page."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.closed_loop.nightly import OwnUsers, TrainingLog
from deep_interest.closed_loop.page import simulation_page
from deep_interest.closed_loop.results import PAPER_METRICS, paired_lift, regret_table, truth_table
from deep_interest.simulation.visits import assign_arms

SERVED = pd.DataFrame(
    {
        "arm": ["a", "a", "b"],
        "version": ["popularity", "2024-03-01-aa", "2024-03-02-bb"],
        "impressions": [1, 3, 5],
    }
)


def exposures(**columns):
    table = pd.DataFrame({"user": [1, 2, 3], "arm": ["a", "b", "b"], "impressions": [4.0, 4.0, 4.0]})
    return table.assign(**columns)


def sums(impressions, clicks, revenue):
    return pd.DataFrame(
        {"impressions": impressions, "expected_clicks": clicks, "expected_revenue": revenue}, dtype=float
    )


def test_the_regret_is_the_share_of_the_oracles_sums_that_is_lost():
    found = regret_table(
        exposures(
            expected_clicks=[1.0, 0.5, 0.7], oracle_clicks=[2.0, 1.0, 1.0], expected_revenue=[0.5, 1.0, 1.0], oracle_revenue=[1.0, 2.0, 3.0],
            value=[3.0, 1.0, 1.0], oracle_value=[4.0, 2.0, 2.0],
        ),
        SERVED,
    ).set_index("arm")  # fmt: skip
    assert found.loc["a", ["ctr", "oracle_ctr", "ctr_regret"]].tolist() == [0.25, 0.5, 0.5]
    assert found.loc["b", ["ctr", "oracle_ctr"]].tolist() == pytest.approx([1.2 / 8, 2 / 8])
    assert found.loc["b", ["ctr_regret", "rpm_regret", "value_regret"]].tolist() == pytest.approx(
        [0.4, 0.6, 0.5]
    )
    assert found.loc["b", ["rpm", "oracle_rpm"]].tolist() == pytest.approx([250, 625])
    assert found["versions"].tolist() == [1, 1]
    assert found["fallback"].tolist() == [0.25, 0.0]


@pytest.mark.slow
def test_a_paired_lift_covers_the_lift_of_all_users_as_often_as_it_says():
    rng, users, covered = np.random.default_rng(0), 400, []
    for _ in range(300):
        impressions = rng.poisson(20, users) + 1
        rate = rng.beta(2, 30, users)
        control = sums(impressions, impressions * rate, impressions * rate)
        better = rng.normal(1.1, 0.2, users)  # +10 % on average, independent of the rate
        treated = sums(impressions, impressions * rate * better, impressions * rate * better)
        found = paired_lift(treated, control, "ctr")
        covered.append(found.low < 0.1 < found.high)
    assert 0.92 < np.mean(covered) < 0.98


def test_the_truth_compares_worlds_and_interference_the_test_with_the_world_of_the_arm():
    def world(arm, clicks, revenue):
        return sums([10, 10, 10, 10], clicks, revenue).assign(user=[1, 2, 3, 4], arm=arm)

    worlds = {"a": world("a", [1, 2, 1, 2], [1, 2, 1, 2]), "b": world("b", [2, 4, 2, 4], [3, 6, 3, 6])}
    test = pd.concat([worlds["a"][:2], worlds["b"][2:].assign(expected_clicks=[2.2, 4.4])])
    found = truth_table(test, worlds, control="a").set_index(["metric", "arm"])
    assert list(found.loc[:, "true_lift"].unstack()["a"]) == [0, 0, 0]
    assert found.loc[("ctr", "b"), "true_lift"] == pytest.approx(1.0)
    assert found.loc[("rpm", "b"), "true_lift"] == pytest.approx(2.0)
    assert found.loc[("pay_per_click", "b"), "true_lift"] == pytest.approx(0.5)
    assert found.loc[
        ("ctr", "b"), ["interference", "interference_low", "interference_high"]
    ].tolist() == pytest.approx([0.1] * 3)
    assert found.loc[("ctr", "a"), "interference"] == pytest.approx(0.0)


def test_the_page_shows_the_papers_gains_with_ours():
    results = pd.DataFrame(
        [{"metric": metric, "arm": "d", "lift": 0.2, "low": 0.1, "high": 0.3} for metric in PAPER_METRICS]
    )
    regret = regret_table(exposures(**dict.fromkeys(("expected_clicks", "oracle_clicks", "expected_revenue", "oracle_revenue", "value", "oracle_value"), 1.0)), SERVED)  # fmt: skip
    nothing = pd.DataFrame()
    page = simulation_page(
        title="T",
        control="a",
        models={"a": "base", "d": "dien"},
        results=results,
        aa=nothing,
        regret=regret,
        truth=nothing,
    )
    assert (
        "| d | +20.0% [+10.0%, +30.0%] | +20.7% | +20.0% [+10.0%, +30.0%] | -3.0% | +20.0% [+10.0%, +30.0%] | +17.1% |"
        in page
    )
    assert "A/A" not in page
    assert "Interference" not in page


def test_the_training_log_has_all_clicks_and_a_share_of_the_others():
    rng = np.random.default_rng(0)
    shown = pd.DataFrame(
        {
            "user": rng.integers(1, 500, 20_000),
            "time": rng.integers(0, 10**6, 20_000),
            "item": rng.integers(1, 99, 20_000),
        }
    ).assign(
        label=lambda table: (table["item"] < 10).astype(int), day=lambda table: 19_800 + table["time"] % 2
    )
    chosen = TrainingLog(7, 0.25).of(shown)
    assert chosen[shown["label"] == 1].all()
    assert chosen[shown["label"] == 0].mean() == pytest.approx(0.25, abs=0.015)
    assert (TrainingLog(7, 0.25).of(shown[::-1])[::-1] == chosen).all()  # whatever the order of the rows
    split = {"a": 1.0, "b": 1.0}
    own = TrainingLog(7, 0.25, OwnUsers(split, "b", "2024-03-19")).of(shown)  # day 19,801 since 1970-01-01
    is_b = assign_arms(shown["user"].to_numpy(), split, 7) == 1
    assert (own == (chosen & (is_b | (shown["day"] == 19_800)))).all()
