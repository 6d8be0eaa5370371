import pytest
from support.days import day_name

from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.retraining.plan import NothingNewError, Plan, new_days, plan_run, with_replay
from deep_interest.serving.registry import RegistryState
from deep_interest.serving.version import Version

DAYS = [day_name(number) for number in range(6)]


def state(*taken):
    return RegistryState(promotions=("v1",) if taken else (), days={day: {} for day in taken})


def champion(*trained):
    return Version("v1", None, {"days": {"trained": list(trained)}})


def plan(found, taken, trained, **options):
    retraining = RetrainingParameters(**({"strategy": "warm_start"} | options))
    new = [day for day in found if day not in taken]
    best = champion(*trained) if taken else None
    return plan_run(found, state(*taken), best, retraining, {day: {} for day in new})


def test_the_first_run_trains_on_all_days_but_the_newest():
    made = plan(DAYS[:4], [], [])
    assert (made.strategy, made.train, made.held_out) == ("full_window", tuple(DAYS[:3]), DAYS[3])


def test_a_warm_start_trains_on_the_day_that_was_held_out_the_last_time():
    made = plan(DAYS[:5], DAYS[:4], DAYS[:3])
    assert (made.train, made.held_out, made.new) == ((DAYS[3],), DAYS[4], (DAYS[4],))
    assert made.trained == tuple(DAYS[:4])


def test_after_a_refusal_a_warm_start_takes_all_days_since_the_champions():
    assert plan(DAYS, DAYS[:5], DAYS[:2]).train == tuple(DAYS[2:5])


def test_a_late_day_is_trained_on_and_the_newest_still_judges():
    made = plan(DAYS, [DAYS[0], *DAYS[2:]], [DAYS[0], *DAYS[2:5]])
    assert (made.late, made.train, made.held_out) == ((DAYS[1],), (DAYS[1],), DAYS[5])


def test_a_full_window_takes_the_last_days_and_forgets_older_ones():
    made = plan(DAYS, DAYS[:5], DAYS[:4], strategy="full_window", window_days=2)
    assert made.train == made.trained == (DAYS[3], DAYS[4])


def test_histories_reach_back_as_far_as_configured():
    made = plan(DAYS, DAYS[:5], DAYS[:4], history_days=2)
    assert made.history == (DAYS[3], DAYS[4], DAYS[5])


@pytest.mark.parametrize(
    ("found", "taken", "message"),
    [
        (DAYS, DAYS, "no new day: the newest is 2024-03-06"),
        ([], [], "there is no day at all"),
        (DAYS[:1], [], "only day"),
    ],
)
def test_without_a_day_to_take_there_is_nothing_to_do(found, taken, message):
    with pytest.raises(NothingNewError, match=message):
        new_days(found, state(*taken))


def test_a_warm_start_sees_some_days_before_again():
    made = plan(DAYS, DAYS[:5], DAYS[:4], replay_days=2)
    assert made.train == tuple(DAYS[2:5])
    assert made.trained == tuple(DAYS[:5])
    late = plan(DAYS, [DAYS[0], *DAYS[2:]], [DAYS[0], *DAYS[2:5]], replay_days=1)
    assert late.train == (DAYS[1], DAYS[4])


def test_every_part_of_a_first_run():
    records = {day: {"hash": day} for day in DAYS[:4]}
    made = plan_run(reversed(DAYS[:4]), state(), None, RetrainingParameters(), records)
    assert made == Plan(
        new=tuple(DAYS[:4]), late=(), history=tuple(DAYS[:4]), train=tuple(DAYS[:3]), held_out=DAYS[3], strategy="full_window",
        parent=None, trained=tuple(DAYS[:3]), records=records, newest=DAYS[3],
    )  # fmt: skip


def test_every_part_of_a_warm_start_with_a_late_day():
    records = {day: {"hash": day} for day in (DAYS[1], DAYS[5])}
    retraining = RetrainingParameters(
        strategy="warm_start_with_distillation", window_days=4, history_days=1, replay_days=1
    )
    before = champion(DAYS[0], DAYS[2], DAYS[3])
    made = plan_run(DAYS, state(DAYS[0], *DAYS[2:5]), before, retraining, records)
    assert made == Plan(
        new=(DAYS[1], DAYS[5]), late=(DAYS[1],), history=(DAYS[1], DAYS[3], DAYS[4], DAYS[5]), train=(DAYS[1], DAYS[3], DAYS[4]),
        held_out=DAYS[5], strategy="warm_start_with_distillation", parent="v1", trained=tuple(DAYS[:5]), records=records, newest=DAYS[5],
    )  # fmt: skip


def test_a_full_window_of_a_champion_names_it_and_goes_back_window_days():
    made = plan(
        DAYS, DAYS[:5], DAYS[:5], strategy="full_window", window_days=3, history_days=4, replay_days=2
    )
    assert (made.parent, made.train, made.trained) == ("v1", tuple(DAYS[2:5]), tuple(DAYS[2:5]))
    assert made.history == tuple(DAYS[1:])


def test_a_champion_that_has_seen_the_whole_window_is_named():
    with pytest.raises(NothingNewError, match=f"champion v1 has seen every day of the last 2 but {DAYS[5]}"):
        plan(DAYS, DAYS[:5], DAYS[3:5], window_days=2)


def test_a_changed_days_record_replaces_the_one_before():
    made = plan(DAYS[:4], [], []).with_changed({DAYS[0]: {"hash": "new"}})
    assert made.changed == (DAYS[0],)
    assert made.records == {DAYS[0]: {"hash": "new"}, **{day: {} for day in DAYS[1:4]}}


def test_new_days_are_those_that_no_run_has_taken_in_order():
    assert new_days(reversed(DAYS), state(DAYS[0], DAYS[2])) == [DAYS[1], *DAYS[3:]]
    assert new_days(DAYS[:2], state(DAYS[0])) == [DAYS[1]]
    with pytest.raises(NothingNewError, match=f"{DAYS[0]} is the only day"):
        new_days(DAYS[:1], state())


@pytest.mark.parametrize(
    ("fresh", "replay", "expected"),
    [([4], 0, [4]), ([4], 1, [3, 4]), ([1], 2, [1, 3, 4]), ([4], 9, [0, 1, 2, 3, 4]), ([2, 4], 1, [2, 3, 4])],
)
def test_the_newest_seen_days_of_a_window_are_replayed(fresh, replay, expected):
    assert with_replay(DAYS[:5], [DAYS[k] for k in fresh], replay) == [DAYS[k] for k in expected]


def test_days_without_complete_labels_wait_for_a_later_night():
    records = {day: {} for day in DAYS}
    made = plan_run(
        DAYS, state(), None, RetrainingParameters(strategy="full_window"), records, incomplete_days=2
    )
    assert (made.train, made.held_out, made.newest) == (tuple(DAYS[:3]), DAYS[3], DAYS[5])
    assert made.trained == tuple(DAYS[:3])
    with pytest.raises(NothingNewError, match="the labels of the last 5 days are not complete"):
        plan_run(DAYS, state(), None, RetrainingParameters(), records, incomplete_days=5)
