"""Labels of a night: no later click is used, and the rows and counts of a tiny log are those by hand."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.logs.tables import ARRIVED, CLICK_TIME, NEVER, CanonicalTables
from deep_interest.retraining import delayed_clicks as dc
from deep_interest.retraining.parameters import DelayedClicksParameters, RetrainingParameters
from deep_interest.retraining.plan import Plan
from deep_interest.retraining.runs import arrival_checks
from deep_interest.retraining.wait_choice import ChosenWait, labels_of_run

HOUR, DAY = 3_600, 86_400
FIRST = 19_783  # 2024-03-01
DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]


def log(rows, behaviors=((0, 0),)):
    """Return a log of impressions ``(hour, hours until the click or None)``, from the first day on."""
    start = np.array([hour for hour, _ in rows]) * HOUR + FIRST * DAY
    click = [
        NEVER if delay is None else time + delay * HOUR for time, (_, delay) in zip(start, rows, strict=True)
    ]
    shown = pd.DataFrame(
        {"user": np.arange(len(rows)), "item": 1, "time": start, "day": start // DAY, CLICK_TIME: click}
    )
    shown["label"] = (shown[CLICK_TIME] != NEVER).astype(np.int8)
    done = pd.DataFrame(
        {
            "user": [user for user, _ in behaviors],
            "item": 1,
            "time": [FIRST * DAY + hour * HOUR for _, hour in behaviors],
        }
    )
    return CanonicalTables(
        done.assign(day=done["time"] // DAY),
        pd.DataFrame({"item": [1]}),
        None,
        shown.astype({CLICK_TIME: np.int64}),
    )


TINY = log([(0, 1), (10, 30), (20, None), (30, 2), (40, 20), (44, None), (50, 1)])
NIGHT = (
    FIRST * DAY + 48 * HOUR
)  # the end of the second day; the clicks of the impressions at 40 and 50 are later


def test_a_night_is_the_midnight_after_its_day_in_the_time_zone_of_the_source():
    assert dc.night_after(TINY, DAYS[1], "UTC") == NIGHT
    assert dc.night_after(TINY, DAYS[1], "Europe/Berlin") == NIGHT - HOUR
    milliseconds = TINY.shown.assign(time=TINY.shown["time"] * 1_000)
    assert (
        dc.night_after(CanonicalTables(TINY.behaviors, TINY.items, None, milliseconds), DAYS[1], "UTC")
        == NIGHT * 1_000
    )


def test_labels_and_rows_of_a_night_by_hand():
    """Known delays: 1, 30 and 2 hours, on impressions 48, 38 and 18 hours old.

    Each of the three is compared with the clicks that could have it: 30 with two (1 and 30), 2 with two (1 and 2). F(30) = 1,
    F(2) = 1/2, F(1) = 1/4.
    """
    found = dc.for_training(TINY, NIGHT, held_out=DAYS[2], wait_hours=0, correct=True)
    shown = found.tables.shown
    assert shown["label"].tolist() == [
        1,
        1,
        0,
        1,
        0,
        0,
        1,
    ]  # the click on the impression at 40 has not come; the last row is held out
    assert shown[ARRIVED].tolist() == pytest.approx(
        [1, 1, 0.5, 0.5, 0.5, 0.5, 1.0]
    )  # at ages of 48, 38, 28, 18, 8 and 4 hours
    assert found.facts == {
        "impressions": 6, "waiting": 0, "clicks": 3, "clicks_expected": 1 + 1 + 2, "median_delay_hours": 2.0,
    }  # fmt: skip


@pytest.mark.parametrize(("hours", "kept"), [(0, 6), (4, 6), (5, 5), (9, 4), (20, 3)])
def test_waiting_leaves_out_training_rows_alone(hours, kept):
    found = dc.for_training(TINY, NIGHT, held_out=DAYS[2], wait_hours=hours, correct=False)
    assert found.facts["impressions"] == kept
    assert found.facts["waiting"] == 6 - kept
    assert found.tables.shown["time"].tolist() == [*TINY.shown["time"][:kept], TINY.shown["time"][6]]
    assert ARRIVED not in found.tables.shown


def test_a_wait_longer_than_the_log_is_an_error():
    with pytest.raises(InputError, match="wait_hours is 49, but no impression before 2024-03-03 is older"):
        dc.for_training(TINY, NIGHT, held_out=DAYS[2], wait_hours=49, correct=False)


def test_events_and_clicks_after_the_night_change_nothing_of_it():
    rng = np.random.default_rng(0)
    rows = [
        (int(hour), int(delay) if clicked else None)
        for hour, delay, clicked in zip(
            rng.integers(0, 72, 300), rng.exponential(15, 300), rng.random(300) < 0.5, strict=True
        )
    ]
    behaviors = [(int(user), int(hour)) for user, hour in rng.integers(0, 72, (50, 2))]
    before = log(rows, behaviors)
    night = FIRST * DAY + 60 * HOUR
    shown, done = before.shown.copy(), before.behaviors.copy()
    late = (shown[CLICK_TIME] >= night) & (shown["time"] < night)
    assert late.sum() > 30
    assert ((done["time"] >= night).sum(), (shown["time"] >= night).sum()) > (3, 30)
    for change in (NEVER, night + 5):  # other clicks after the night, or none
        shown.loc[late, CLICK_TIME] = change
        shown.loc[shown["time"] >= night, [CLICK_TIME, "item"]] = [NEVER, 7]
        shown["label"] = (shown[CLICK_TIME] != NEVER).astype(np.int8)
        done.loc[done["time"] >= night, "item"] = 9
        after = CanonicalTables(done, before.items, None, shown)
        for parameters in (
            DelayedClicksParameters(),
            DelayedClicksParameters(correct=True, complete_hours=2),
        ):
            ours, theirs = (
                dc.retraining_labels(
                    tables,
                    night,
                    held_out=DAYS[2],
                    wait_hours=3,
                    parameters=parameters.model_copy(update={"complete_hours": 2}),
                )
                for tables in (before, after)
            )
            assert ours.facts == theirs.facts
            drop = [CLICK_TIME]
            pd.testing.assert_frame_equal(
                ours.tables.shown.drop(columns=drop), theirs.tables.shown.drop(columns=drop)
            )
            pd.testing.assert_frame_equal(ours.tables.behaviors, theirs.tables.behaviors)
        trained = [
            dc.for_training(tables, night, held_out=DAYS[2], wait_hours=0, correct=True)
            for tables in (before, after)
        ]
        assert trained[0].facts == trained[1].facts


def test_the_held_out_day_has_complete_labels_alone():
    """On the night at 72 hours, the impressions of the third day at 50, 60 and 70 hours are 22, 12 and 2 hours old."""
    tables = log([(0, 1), (10, 4), (50, 1), (60, 20), (70, 1)])
    night = FIRST * DAY + 72 * HOUR
    parameters = DelayedClicksParameters(complete_hours=12)
    found = dc.retraining_labels(tables, night, held_out=DAYS[2], wait_hours=0, parameters=parameters)
    assert found.tables.shown["label"].tolist() == [1, 1, 1, 0]
    assert (found.facts["judged"], found.facts["not_judged"], found.facts["judged_clicks"]) == (2, 1, 1)
    assert found.facts["judged_arrived"] == 1.0
    with pytest.raises(InputError, match="complete_hours is 23, but no impression of 2024-03-03 is older"):
        dc.retraining_labels(
            tables,
            night,
            held_out=DAYS[2],
            wait_hours=0,
            parameters=DelayedClicksParameters(complete_hours=23),
        )


def test_a_warm_start_that_would_never_see_the_rows_is_refused():
    with pytest.raises(ValueError, match="set replay_days to at least 2, or strategy to full_window"):
        RetrainingParameters(replay_days=1, delayed_clicks={"wait_hours": 30})
    with pytest.raises(ValueError, match="set replay_days to at least 2"):
        RetrainingParameters(replay_days=1, delayed_clicks={"wait_hours": "choose"})
    RetrainingParameters(strategy="full_window", delayed_clicks={"wait_hours": "choose"})
    with pytest.raises(ValueError, match="expected different hours in ascending order"):
        DelayedClicksParameters(candidates=(24, 0))


def plan_of(held_out, newest):
    return Plan((), (), (), tuple(DAYS[:2]), held_out, "full_window", None, (), {}, newest=newest)


def test_a_log_without_click_times_is_unchanged_and_has_no_correction():
    shown = TINY.shown.drop(columns=CLICK_TIME)
    tables = CanonicalTables(TINY.behaviors, TINY.items, None, shown)
    plan = plan_of(DAYS[2], DAYS[2])
    found, facts = labels_of_run(tables, plan, ChosenWait(0), "UTC", DelayedClicksParameters())
    assert found is tables
    assert facts is None
    for parameters, hours in (
        (DelayedClicksParameters(correct=True), 0),
        (DelayedClicksParameters(wait_hours=3), 3),
    ):
        with pytest.raises(InputError, match=r"name the column in source\.impressions\.click_time"):
            labels_of_run(tables, plan, ChosenWait(hours), "UTC", parameters)


def test_a_run_is_on_the_night_after_the_newest_day_and_waits_as_chosen():
    plan, parameters = (
        plan_of(DAYS[1], DAYS[1]),
        DelayedClicksParameters(wait_hours="choose", complete_hours=4),
    )
    found, facts = labels_of_run(TINY, plan, ChosenWait(25, {"days": []}), "UTC", parameters)
    assert (facts["wait_hours"], facts["impressions"], facts["clicks"], facts["choice"]) == (
        25,
        3,
        2,
        {"days": []},
    )
    assert (facts["judged"], facts["judged_clicks"], facts["not_judged"]) == (3, 1, 0)
    assert found.shown["label"].tolist() == [1, 1, 0, 1, 0, 0]


def test_a_version_whose_judged_clicks_have_not_arrived_is_refused():
    (check,) = arrival_checks({"judged_arrived": 0.9}, 0.95)
    assert (check.found, check.passed) == (0.9, False)
    assert arrival_checks({"judged_arrived": 0.95}, 0.95)[0].passed
    assert arrival_checks(None, 0.95) == ()
