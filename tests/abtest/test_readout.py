"""The read-out as a whole: tables, verdicts, warnings, pages."""

import json

import numpy as np
import pandas as pd
import pytest
from abtest_log import Setting, simulate
from pydantic import ValidationError

from deep_interest.abtest import METRICS, UserDays, lift_of, read_out
from deep_interest.abtest.page import readout_markdown, sentences_of
from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.abtest.sentences import fading, notes_of, verdict, warnings_of
from deep_interest.errors import InputError
from deep_interest.figures.abtest import days_chart, metrics_chart, novelty_chart
from deep_interest.figures.plotly import plotly_figure
from deep_interest.reporting.abtest import abtest_html

EQUAL = {"base": 0.5, "din": 0.5}
BLOCK = {"title": "T", "control": "base", "split": EQUAL, "source": {"exposures": {"files": "log.csv"}}}


@pytest.fixture(scope="module")
def log() -> UserDays:
    return simulate(np.random.default_rng(1), Setting(users=4000, days=10, lift=0.3)).user_days()


@pytest.fixture(scope="module")
def readout(log):
    return read_out(log, control="base", split=EQUAL)


def three_arms() -> UserDays:
    """Three arms, of which the third has twice as many clicks."""
    rng = np.random.default_rng(2)
    users = np.arange(1500)
    impressions = 1 + rng.poisson(10, (3, 1500))
    clicks = rng.binomial(impressions, 0.1 * (1 + (users % 3 == 2)))
    values = np.stack([impressions, clicks, 0 * clicks], axis=-1).reshape(-1, 3)
    arms = np.array(["base", "din", "dien"])[users % 3]
    return UserDays.of(np.tile(users, 3), np.tile(arms, 3), np.repeat(np.arange(3), 1500), values, arm_names=("base", "din", "dien"))  # fmt: skip


def test_the_results_are_those_of_the_last_day(log, readout):
    moments = log.moments()
    for row in readout.results.itertuples():
        expected = lift_of(moments["din"], moments["base"], row.metric, cuped=True)
        assert (row.lift, row.low, row.high, row.p_value) == pytest.approx(
            (expected.lift, expected.low, expected.high, expected.p_value)
        )
        plain = lift_of(moments["din"], moments["base"], row.metric)
        assert (row.plain_lift, row.plain_low) == pytest.approx((plain.lift, plain.low))
        assert row.always_low < row.low < row.high < row.always_high
        assert row.p_holm == row.p_value  # a single comparison
        assert 0.1 < row.variance_removed < 0.9
    assert list(readout.results["metric"]) == list(METRICS)
    last = readout.by_day[readout.by_day["day"] == readout.checks["last_day"]]
    assert last["always_low"].to_numpy() == pytest.approx(readout.results["always_low"].to_numpy())


def test_planned_days_make_the_always_valid_intervals_narrower(log, readout):
    planned = read_out(log, control="base", split=EQUAL, planned_days=28)
    for wide, narrow in zip(readout.results.itertuples(), planned.results.itertuples(), strict=True):
        assert wide.always_low < narrow.always_low < narrow.low < narrow.high < narrow.always_high < wide.always_high  # fmt: skip
    last = planned.by_day[planned.by_day["day"] == planned.checks["last_day"]]
    assert last["always_low"].to_numpy() == pytest.approx(planned.results["always_low"].to_numpy())
    assert (planned.results["days_always_expected"] <= readout.results["days_always_expected"]).all()
    assert any("each of the 28 planned days" in note for note in notes_of(planned.checks, {}))
    with pytest.raises(InputError, match="planned_days: found 9, but the log has 10 days"):
        read_out(log, control="base", split=EQUAL, planned_days=9)


def test_every_arm_is_compared_with_the_control_and_corrected():
    found = read_out(three_arms(), control="base", split={"base": 1, "din": 1, "dien": 1})
    ctr = found.results[found.results["metric"] == "ctr"].set_index("arm")
    assert list(found.results["metric"].unique()) == ["ctr", "clicks_per_user"]  # the log has no revenue
    smaller, larger = sorted(ctr["p_value"])
    assert sorted(ctr["p_holm"]) == pytest.approx([2 * smaller, max(2 * smaller, larger)])
    assert ctr.loc["dien", "lift"] == pytest.approx(1.0, abs=0.15)
    assert found.results["variance_removed"].isna().all()
    sentences = sentences_of(found, expected_lift=0.05)
    assert any("CTR: no significant difference; the lift of din" in sentence for sentence in sentences)
    assert any(
        "higher with dien than with base; the always-valid interval" in sentence for sentence in sentences
    )


def row_of(**changes) -> dict:
    """Return a row of a read-out that shows nothing."""
    row = {
        "metric": "ctr", "arm": "din", "control": "base", "lift": 0.02, "low": -0.01, "high": 0.05, "p_holm": 0.2,
        "always_low": -0.03, "always_high": 0.07, "detectable_lift": 0.043, "days_expected": 3.0, "days_always_observed": 12.0,
        "slope_p_value": 0.4,
    }  # fmt: skip
    return row | changes


def test_the_verdicts():
    assert verdict(row_of(), expected_lift=0.05) == (
        "CTR: no significant difference; the lift of din over base is +2.0% [-1.0%, +5.0%]. The test finds a lift of +4.3% with a "
        "probability of 80 %. For a lift of +5.0%, it takes about 3 more days (fixed-horizon interval, power 80 %)."
    )
    assert "10 times the days so far are not enough" in verdict(
        row_of(days_expected=np.inf), expected_lift=0.05
    )
    assert "about 1 more day (" in verdict(row_of(days_expected=1.0), expected_lift=0.05)
    assert "After four days" in verdict(row_of(days_expected=np.nan), expected_lift=0.05)
    fixed = verdict(row_of(lift=0.03, low=0.01, p_holm=0.01), expected_lift=0.05)
    assert "significant only if this day was planned as the last one" in fixed
    assert "For a lift of +3.0%, it takes about 12 more days (always-valid interval" in fixed
    lower = verdict(
        row_of(lift=-0.08, low=-0.1, high=-0.06, always_low=-0.12, always_high=-0.04), expected_lift=0.05
    )
    assert lower.startswith(
        "CTR is 8.0% lower with din than with base; the always-valid interval [-12.0%, -4.0%] excludes 0"
    )
    assert "not defined" in verdict(row_of(lift=np.nan), expected_lift=0.05)
    assert "fewer than 30 users with clicks" in verdict(row_of(low=np.nan), expected_lift=0.05)
    assert fading(row_of()) is None
    faded = fading(row_of(slope_p_value=0.001, slope_first=0.1, slope_last=0.01, slope_last_day=20))
    assert "from +10.0% on the first day to +1.0% after 20 days (p = 0.001)" in faded


def test_a_sample_ratio_mismatch_comes_first(log):
    found = read_out(log, control="base", split={"base": 0.6, "din": 0.4})
    (warning,) = warnings_of(found.checks)
    assert warning.startswith("Sample ratio mismatch: the arms have base ")
    page = readout_markdown(found, title="T", expected_lift=0.05, left_out={})
    assert page.index("Sample ratio mismatch") < page.index("CTR is")


def test_users_in_two_arms_are_a_warning(readout):
    assert warnings_of(readout.checks) == []
    (warning,) = warnings_of(readout.checks | {"users_in_two_arms": 200})
    assert "200 users (" in warning


def test_few_users_have_no_interval(log):
    few = UserDays.of(
        np.arange(40), np.array(["base", "din"])[np.arange(40) % 2], np.zeros(40, int), np.tile([5.0, 1.0, 2.0], (40, 1)),
        arm_names=("base", "din"),
    )  # fmt: skip
    found = read_out(few, control="base", split=EQUAL)
    assert found.results[["low", "always_low", "detectable_lift", "days_expected"]].isna().all(axis=None)
    assert "without an interval" in sentences_of(found, expected_lift=0.05)[0]


def test_arms_that_cannot_be_compared_are_refused(log):
    with pytest.raises(InputError, match="found the control bas"):
        read_out(log, control="bas", split=EQUAL)
    with pytest.raises(InputError, match="the log has the arms base, din"):
        read_out(log, control="base", split={"base": 1, "dien": 1})
    one = UserDays.of(
        np.arange(9), ["base"] * 9, np.zeros(9, int), np.ones((9, 3)), arm_names=("base", "din")
    )
    with pytest.raises(InputError, match=r"arm din has 0 user\(s\), expected at least 2"):
        read_out(one, control="base", split=EQUAL)


@pytest.mark.slow
def test_the_pages_show_every_metric(readout):
    page = readout_markdown(readout, title="A <b>", expected_lift=0.05, left_out={"malformed lines": 3})
    assert page.startswith("# A &lt;b>")
    assert "Left out: 3 malformed lines." in page
    charts = {
        "metrics": metrics_chart(readout.results, title="lifts"),
        "days": days_chart(readout.by_day, title="days"),
        "novelty": novelty_chart(readout.by_tenure, readout.results, title="novelty"),
    }
    figures = {name: json.loads(json.dumps(plotly_figure(chart))) for name, chart in charts.items()}
    shown = abtest_html(readout, title="A <b>", expected_lift=0.05, left_out={}, figures=figures)
    assert "<h1>A &lt;b&gt;</h1>" in shown
    for metric in METRICS.values():
        assert f"| {metric.name} | din |" in page
        assert f'<th scope="row">{metric.name}</th>' in shown
    assert len(charts["days"].panels) == len(METRICS)


def test_the_tables_survive_csv(readout, tmp_path):
    readout.results.to_csv(tmp_path / "results.csv", index=False)
    again = pd.read_csv(tmp_path / "results.csv")
    before, after = (
        [verdict(row, expected_lift=0.05) for row in frame.to_dict("records")]
        for frame in (readout.results, again)
    )
    assert before == after


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"control": "bass"}, "control bass is not an arm of split; the arms are base, din"),
        ({"split": {"base": 1}}, "split has the arm.s. base only"),
        ({"split": {"base": 1, "din": 0}}, "greater than 0"),
        ({"expected_lift": 0}, "greater than 0"),
        ({"planned_days": 0}, "greater than or equal to 1"),
        ({"begin": "2024-01-01"}, "Extra inputs"),
        ({"start": "2024-01-01", "source": {"exposures": {"files": "a"}, "pre_period": {"files": "b"}}}, "not both"),
        ({"source": {"exposures": {"files": "a", "day": "d", "time": "t"}}}, "set time .a time. or day"),
        ({"source": {"exposures": {"files": "a"}, "pre_period": {"files": "b", "revenue": "c"}}}, "has no effect"),
    ],
)  # fmt: skip
def test_a_block_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        ABTestParameters.model_validate(BLOCK | changes)


def test_arms_may_be_numbers():
    block = BLOCK | {"control": 0, "split": {0: 0.5, 1: 0.5}}
    assert ABTestParameters.model_validate(block).split == {"0": 0.5, "1": 0.5}


@pytest.mark.slow
@pytest.mark.nightly
def test_levels_and_coverage_of_the_benchmark():
    from abtest_levels import durations, study

    setting = Setting(users=2000, days=14)
    none, some = study(setting, 250, 0), study(Setting(users=2000, days=14, lift=0.1), 250, 0)
    for metric in METRICS:
        assert none[metric]["excludes_0"] < 0.1
        assert none[metric]["any_day_always_valid"] < 0.05 < none[metric]["any_day_fixed"]
        assert some[metric]["coverage_cuped"] > 0.9
        assert none[metric]["slope_excludes_0"] < 0.1
    assert some["ctr"]["excludes_0"] > 3 * none["ctr"]["excludes_0"]
    assert durations(Setting(users=2000), 10, 0)["predicted"] == pytest.approx(28, abs=14)
