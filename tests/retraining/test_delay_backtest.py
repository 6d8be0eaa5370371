"""The backtest of delayed clicks: metrics by hand, leaks, the chosen wait, and the table and page."""

import numpy as np
import pandas as pd
import pytest
from support.days import FEATURES, day_name, write_days

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import gauc, logloss
from deep_interest.figures.delayed_clicks import delayed_clicks_chart
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CLICK_TIME, NEVER
from deep_interest.retraining import wait_choice
from deep_interest.retraining.days import ReaderConfig, read_days
from deep_interest.retraining.delay_backtest import (
    AT_ONCE,
    ORACLE,
    Choice,
    Night,
    NightlyFits,
    choices_of,
    days_to_judge,
    metric_sums,
    replay_nights,
)
from deep_interest.retraining.delay_table import ALL_NIGHTS, cost_table, delay_page
from deep_interest.retraining.delayed_clicks import night_after
from deep_interest.retraining.paired_ratios import RatioOfSums, paired_difference
from deep_interest.retraining.parameters import DelayedClicksParameters, RetrainingParameters
from deep_interest.sources.tables.declaration import Source
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment

DAYS = [day_name(number) for number in range(5)]
COLUMNS = FeatureColumns.model_validate(FEATURES)
SOURCE = Source.model_validate(
    {name: {"files": f"{name}.parquet"} for name in ("behaviors", "items", "users", "impressions")}
)
EXPERIMENT = Experiment(
    "shop", "base", RowOptions({}), Recipe(training={"batch_size": 32}, model={"embedding_dim": 4, "hidden": (8,)}), (1,),
    RunParameters(device="cpu", processes=1, threads=1),
)  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Five days of 30 users with 8 impressions a day; half of the clicks come within 16 hours."""
    folder = tmp_path_factory.mktemp("delayed") / "days"
    write_days(folder, range(5), users=30, per_user=8)
    tables = read_days(folder, DAYS, ReaderConfig(SOURCE, COLUMNS))
    shown = tables.shown
    delay = np.random.default_rng(4).exponential(24 * 3_600, len(shown)).astype(np.int64)
    shown[CLICK_TIME] = np.where(shown["label"] == 1, shown["time"] + delay, NEVER)
    return tables


def fits_in(folder, **delayed):
    retraining = RetrainingParameters(strategy="full_window", training={"epochs": 1}, delayed_clicks=delayed)
    return NightlyFits(EXPERIMENT, retraining, ProtocolParameters(name="by_day"), COLUMNS, "UTC", folder)


@pytest.mark.slow
def test_a_night_sees_no_later_click_and_the_oracle_does(log, tmp_path):
    fits, window = fits_in(tmp_path), DAYS[:4]
    night = night_after(log, DAYS[2], "UTC")
    shown = log.shown.copy()
    late = (shown[CLICK_TIME] >= night) & (shown["time"] < night)
    assert late.sum() > 20
    shown.loc[late, [CLICK_TIME, "label"]] = [NEVER, 0]
    changed = type(log)(log.behaviors, log.items, log.users, shown)
    for choice in (AT_ONCE, Choice(24, correct=True)):
        ours, theirs = (fits.scores(tables, window, choice, 1) for tables in (log, changed))
        assert ours[1] == theirs[1]
        np.testing.assert_array_equal(ours[0], theirs[0])
    ours, theirs = (fits.scores(tables, window, ORACLE, 1)[0] for tables in (log, changed))
    assert np.abs(ours - theirs).max() > 1e-4


@pytest.mark.slow
def test_every_choice_predicts_the_final_labels_of_the_next_day(log, tmp_path):
    parameters = DelayedClicksParameters(candidates=(0, 12))
    choices = choices_of(parameters)
    assert [choice.name for choice in choices] == [
        "at once", "wait 12 h", "at once, corrected", "wait 12 h, corrected", "oracle: final labels",
    ]  # fmt: skip
    (night,) = replay_nights(log, DAYS, [DAYS[3]], choices, fits_in(tmp_path), seeds=(1,))
    held_out = log.shown[log.shown["day"] == log.shown["day"].min() + 3]
    assert night.labels.tolist() == held_out["label"].tolist()
    assert pd.factorize(night.users)[0].tolist() == pd.factorize(held_out["user"])[0].tolist()
    assert {len(scores) for scores in night.scores.values()} == {len(held_out)}
    assert night.facts["at once"]["impressions"] == 720
    assert night.facts["wait 12 h"]["impressions"] == 720 - night.facts["wait 12 h"]["waiting"]
    means = {name: scores.mean() for name, scores in night.scores.items()}
    assert means["at once"] < means["at once, corrected"]


@pytest.mark.slow
def test_days_to_judge_have_complete_labels(log, tmp_path):
    for hours, expected in ((0, DAYS[3:]), (24, DAYS[3:4])):
        fits = fits_in(tmp_path, complete_hours=hours, candidates=[0, 24])
        assert days_to_judge(log, DAYS, fits, warm_up=3) == expected
    with pytest.raises(InputError, match="of 5 days, none after the first 3 has complete labels"):
        days_to_judge(log, DAYS, fits_in(tmp_path, complete_hours=48), warm_up=1)


USERS, LABELS = np.array([1, 1, 1, 2, 2, 3]), np.array([1, 0, 0, 1, 0, 0])
OURS, BASE = np.array([0.6, 0.3, 0.7, 0.5, 0.4, 0.2]), np.array([0.9, 0.2, 0.1, 0.3, 0.6, 0.2])
NIGHTS = [
    Night(day, 1, USERS, LABELS, {"at once": OURS, ORACLE.name: BASE}, {"at once": {"impressions": 9.0, "waiting": 2, "clicks": 3, "clicks_expected": 4}, ORACLE.name: {}})
    for day in DAYS[:2]
]  # fmt: skip


def test_metrics_of_all_nights_are_those_of_their_rows():
    for name, scores in (("at once", OURS), (ORACLE.name, BASE)):
        sums = metric_sums(NIGHTS, name)
        assert sums["gauc"].value == pytest.approx(gauc(USERS, LABELS, scores).value)
        assert sums["logloss"].value == pytest.approx(logloss(LABELS, scores))
        assert sums["calibration"].value == pytest.approx(scores.sum() / 2)


def test_a_paired_difference_by_hand():
    """Means of two rows per user: differences 2, 0 and 1 of three users, so the standard error is that of their mean."""
    ones = np.full(3, 2.0)
    ours, base = (
        RatioOfSums(np.arange(3), np.array([4.0, 2, 6]), ones),
        RatioOfSums(np.arange(3), np.array([0.0, 2, 4]), ones),
    )
    found = paired_difference(ours, base)
    assert found.difference == pytest.approx(1.0)
    assert found.high - found.difference == pytest.approx(1.959964 * 1 / np.sqrt(3), rel=1e-5)
    assert found.low == pytest.approx(2 - found.high)
    assert paired_difference(ours, ours).p_value == 1.0


def test_repeating_a_night_makes_no_interval_narrower():
    """The rows of a user on several nights are one cluster."""
    costs = cost_table(NIGHTS, [AT_ONCE, ORACLE]).set_index(["day", "choice"])
    once, twice = costs.loc[DAYS[0], "at once"], costs.loc[ALL_NIGHTS, "at once"]
    columns = [
        f"{metric}_{part}"
        for metric in ("gauc", "logloss", "calibration")
        for part in ("cost", "low", "high")
    ]
    np.testing.assert_allclose(once[columns].astype(float), twice[columns].astype(float))
    assert (once["judged"], twice["judged"]) == (6, 12)
    assert (costs.loc[ALL_NIGHTS, ORACLE.name][["gauc_cost", "logloss_low"]] == 0).all()


def test_the_page_and_the_chart_have_each_choice():
    costs = cost_table(NIGHTS, [AT_ONCE, ORACLE])
    lines = delay_page(costs, {"2024-03-09": "ctr 1.0"}).split("\n")
    own = next(line for line in lines if line.startswith("| at once"))
    cost = gauc(USERS, LABELS, OURS).value - gauc(USERS, LABELS, BASE).value
    assert f"| {gauc(USERS, LABELS, OURS).value:.4f} | {cost:+.4f} (" in own
    assert own.endswith("| 9 | 2 | 3 | 4 |")
    assert next(line for line in lines if line.startswith("| oracle")).count("–") == 7
    assert "Excluded by the data checks: 2024-03-09 (ctr 1.0)." in lines
    whole = costs["day"] == ALL_NIGHTS
    panels = delayed_clicks_chart(costs[~whole], costs[whole]).panels
    own = costs[whole].iloc[0]
    assert panels[3].marks[1].x == [own["logloss_cost"]]
    assert panels[3].marks[1].error == pytest.approx([own["logloss_high"] - own["logloss_cost"]])
    assert [line.name for line in panels[0].marks] == ["at once", ORACLE.name]
    assert panels[1].marks[0].y == pytest.approx([cost] * 2)


def chosen(*scores, users=200):
    """Choose between waits of 0, 24 and 48 hours whose predictions are given, for labels that alternate."""
    labels = np.tile([1, 0], users)
    noise = np.random.default_rng(0).normal(0, 0.02, 2 * users)
    choices = [Choice(24 * k) for k in range(3)]
    columns = {
        choice.name: np.where(labels == 1, p, 1 - p) + (k + 1) * noise / 3
        for k, (choice, p) in enumerate(zip(choices, scores, strict=True))
    }
    night = Night(DAYS[0], 1, np.repeat(np.arange(users), 2), labels, columns, {})
    return wait_choice._chosen([night], choices)


@pytest.mark.parametrize(
    ("scores", "hours"), [((0.7, 0.7, 0.7), 0), ((0.6, 0.7, 0.7), 24), ((0.5, 0.6, 0.7), 48), ((0.7, 0.6, 0.5), 0), ((0.7, 0.5, 0.7), 0)]
)  # fmt: skip
def test_the_shortest_wait_that_is_not_worse_is_chosen(scores, hours):
    found = chosen(*scores)
    assert found.hours == found.facts["chosen_hours"] == hours
    assert [of["wait_hours"] for of in found.facts["candidates"]] == [0, 24, 48]
    assert (found.facts["impressions"], found.facts["clicks"]) == (400, 200)


@pytest.mark.slow
def test_a_wait_is_chosen_on_complete_nights_without_later_clicks(log, tmp_path):
    fits = fits_in(tmp_path, wait_hours="choose", candidates=[0, 24], nights=2)
    night = night_after(log, DAYS[4], "UTC")
    found = wait_choice.choose_wait(log, DAYS[:4], fits, night=night)
    assert found.facts["days"] == [DAYS[2], DAYS[3]]
    shown = log.shown.copy()
    late = shown[CLICK_TIME] >= night
    assert late[shown["time"] < night].any()
    shown.loc[late, [CLICK_TIME, "label"]] = [NEVER, 0]
    changed = type(log)(log.behaviors, log.items, log.users, shown)
    assert wait_choice.choose_wait(changed, DAYS[:4], fits, night=night) == found
    with pytest.raises(InputError, match="needs a day whose labels are complete"):
        wait_choice.choose_wait(log, DAYS[:2], fits, night=night)
