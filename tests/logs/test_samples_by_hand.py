"""Samples of every protocol against references written another way."""

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from support.logs import encoded, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import run_offsets
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.history_ranges import history_ends
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.negatives import sample_negatives
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import catalogue_samples, target_behaviors
from deep_interest.logs.samples import TEST, TRAIN, VALIDATION
from deep_interest.logs.tables import CanonicalTables

DAY = 86_400


def log_of(lengths, *, items=60, ratings=False):
    """A log whose user k has ``lengths[k]`` behaviours at the times 0, 1, …, with items in an order of their own."""
    rng = np.random.default_rng(3)
    rows = [
        (f"u{user:03}", int(item) + 1, time, float(rng.integers(1, 6)))[: 4 if ratings else 3]
        for user, n in enumerate(lengths) for time, item in enumerate(rng.permutation(items)[:n])
    ]  # fmt: skip
    return encoded(tables_of(rows, items=items))


def split_of(users, protocol):
    """Split by user code: the seeded permutation's first share tests, a share of the rest validates."""
    order = np.random.default_rng([protocol.seed, 1]).permutation(users).tolist()
    tests = round(len(users) * protocol.test_users)
    validations = round((len(users) - tests) * protocol.validation_users)
    return {
        user: TEST if k < tests else VALIDATION if k < tests + validations else TRAIN
        for k, user in enumerate(order)
    }


@pytest.mark.parametrize("seed", [0, 5])
def test_last_item_samples_are_the_last_behaviours_of_a_seeded_split(seed):
    log = log_of([1, 2, 3, 4, 5, 3, 9, 3, 4, 2, 7, 3, 3, 6])
    protocol = ProtocolParameters(name="last_item", seed=seed, test_users=0.25, validation_users=0.4)
    samples = catalogue_samples(log, protocol)
    users = np.flatnonzero(log.length >= 3)
    split = split_of(users, protocol)
    assert samples.user[::2].tolist() == users.tolist()
    assert samples.split[::2].tolist() == [split[user] for user in users]
    assert samples.item[::2].tolist() == [log.item[log.offsets[user + 1] - 1] for user in users]
    assert (
        samples.history_end[::2].tolist()
        == samples.time[::2].tolist()
        == [log.length[user] - 1 for user in users]
    )
    assert samples.label.tolist() == [1, 0] * len(users)
    assert samples.left_out == {"behaviors of users with fewer than 3 behaviors": 1 + 2 + 2}


@pytest.mark.parametrize("seed", [0, 5])
def test_rated_samples_are_all_behaviours_of_a_seeded_split(seed):
    log = log_of([1, 2, 3, 4, 5, 3, 9, 3, 4, 2], ratings=True)
    protocol = ProtocolParameters(
        name="rated", seed=seed, test_users=0.3, validation_users=0.3, positive_rating=3.0
    )
    samples = catalogue_samples(log, protocol)
    split = split_of(np.arange(1, 11), protocol)
    assert samples.split.tolist() == [split[user] for user in log.user]
    assert samples.label.tolist() == (log.rating >= 3).astype(int).tolist()
    assert samples.history_end.tolist() == log.time.tolist()
    assert samples.left_out == {}
    dtypes = [getattr(samples, name).dtype for name in ("user", "item", "label", "history_end", "split")]
    assert dtypes == [np.int32, np.int32, np.int8, np.int32, np.int8]


@pytest.mark.parametrize("negatives", ["uniform", "popularity"])
@pytest.mark.parametrize("pool", ["trained", "catalogue"])
def test_negatives_are_drawn_from_the_pools_that_the_parameters_name(negatives, pool):
    """The reference draws with the same generators: training rows first, then the others, each from its own pool."""
    log = log_of([3, 4, 5, 6, 7, 3, 9, 3, 4, 8], items=30)
    protocol = ProtocolParameters(name="next_item", negatives=negatives, negative_pool=pool, seed=4)
    samples = catalogue_samples(log, protocol)
    from_end = log.length[log.user] - 1 - log.position
    counts = np.bincount(log.item[from_end > 1], minlength=31)  # without validation and test targets
    everything, trained = np.arange(1, 31), np.flatnonzero(counts)
    pools = [
        trained if pool == "trained" or negatives == "popularity" else everything,
        trained if negatives == "popularity" else everything,
    ]
    users, split, drawn = samples.user[::2], samples.split[::2], samples.item[1::2]
    for index, rows in enumerate((split == TRAIN, split != TRAIN)):
        expected = sample_negatives(
            users[rows], seen_users=log.user, seen_items=log.item, pool=pools[index],
            weights=counts[pools[index]] if negatives == "popularity" else None, rng=np.random.default_rng([4, 2, index]),
        )  # fmt: skip
        assert drawn[rows].tolist() == expected.tolist()
    assert (samples.time[::2] == samples.history_end[::2]).all()


def test_a_samples_frame_names_its_splits():
    frame = catalogue_samples(log_of([4, 5]), ProtocolParameters(name="next_item")).frame()
    assert list(frame) == ["user", "item", "label", "time", "history_end", "split"]
    assert frame["split"].dtype == pd.CategoricalDtype(["train", "validation", "test"])
    assert frame["split"].astype(str).tolist() == [
        *["train"] * 2, *["validation"] * 2, *["test"] * 2, *["train"] * 4, *["validation"] * 2, *["test"] * 2,
    ]  # fmt: skip


def test_an_empty_split_is_named_with_what_was_left_out():
    with pytest.raises(
        InputError, match=r"no train samples from 2 users with 5 behaviours .*fewer than 3 behaviors': 2"
    ):
        catalogue_samples(log_of([2, 3]), ProtocolParameters(name="next_item"))
    with pytest.raises(InputError, match="no validation samples"):
        catalogue_samples(
            log_of([3] * 4), ProtocolParameters(name="last_item", test_users=0.25, validation_users=0.1)
        )


def test_the_paper_mode_needs_no_validation_samples():
    samples = catalogue_samples(log_of([3, 3]), ProtocolParameters(name="next_item", mode="paper"))
    assert samples.split[::2].tolist() == [TRAIN, TEST, TRAIN, TEST]


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 3.0, 4.0])])
def test_a_user_who_has_touched_the_whole_pool_gets_no_negative_and_others_do(weights):
    drawn = sample_negatives(
        np.array([1, 2, 2, 3]), seen_users=np.array([1, 1, 1, 1, 2, 2]), seen_items=np.array([5, 6, 7, 8, 5, 8]),
        pool=np.array([5, 6, 7, 8]), weights=weights, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert drawn[0] == 0
    assert set(drawn[1:3].tolist()) <= {6, 7}
    assert drawn[3] in (5, 6, 7, 8)
    assert drawn.dtype == np.int32


def test_the_rare_items_left_to_a_user_are_drawn_by_their_weights():
    """Two of 2,000 items are left, far too rare to be met by chance: their weights are 1 and 3."""
    pool, weights = np.arange(1, 2001), np.full(2000, 1e6)
    weights[[0, 1]] = 1, 3
    drawn = sample_negatives(
        np.ones(4000, int), seen_users=np.ones(1998, int), seen_items=np.arange(3, 2001), pool=pool, weights=weights,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert set(drawn.tolist()) == {1, 2}
    assert np.mean(drawn == 2) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(
    ("users", "codes", "offsets"), [([1, 1, 3], 4, [0, 0, 2, 2, 3]), ([], 2, [0, 0, 0]), ([0, 0], 1, [0, 2])]
)
def test_offsets_of_runs(users, codes, offsets):
    found = run_offsets(np.array(users, np.int32), codes)
    assert (found.tolist(), found.dtype) == (offsets, np.int64)


BEHAVIORS = [("a", 1, 10), ("a", 2, 20), ("b", 3, 15)]


@pytest.mark.parametrize("shift", [0, 10**6, -(10**6), 2**61])
@pytest.mark.parametrize("scale", [1, 2**20, 2**55])
def test_history_ends_of_times_before_between_and_after_all_behaviours(shift, scale):
    """Times so far apart that user and time do not fit into 64 bits are ranked first."""
    if abs(shift) + 40 * scale >= 2**62:
        shift = 0
    log = encoded(tables_of([(user, item, time * scale + shift) for user, item, time in BEHAVIORS]))
    user = np.array([1, 1, 1, 1, 1, 2, 2, 2, 0])
    time = np.array([9, 10, 11, 20, 30, 15, 16, 1, 30]) * scale + shift
    ends = history_ends(log, user, time)
    assert ends.tolist() == [0, 0, 1, 1, 2, 0, 1, 0, 0]
    assert ends.dtype == np.int32


def by_day(shown, **options):
    tables = tables_of(BEHAVIORS, impressions=shown)
    protocol = ProtocolParameters(name="by_day", **options)
    return tables, impression_samples(
        tables.impressions, encoded(tables), protocol, features=FeatureColumns(context=("pid",))
    )


def test_every_part_of_impression_samples():
    shown = [
        ("a", 1, 12, 1, "x"),
        ("b", 3, DAY, 0, "y"),
        ("a", 2, 2 * DAY, 1, "x"),
        ("c", 2, 2 * DAY + 1, 0, "z"),
    ]
    _, made = by_day(shown)
    samples = made.samples
    assert (samples.user.tolist(), samples.item.tolist()) == ([1, 1, 2, 3], [1, 2, 3, 2])
    assert (samples.label.tolist(), samples.label.dtype) == ([1, 1, 0, 0], np.int8)
    assert samples.time.tolist() == [12, 2 * DAY, DAY, 2 * DAY + 1]
    assert samples.history_end.tolist() == [1, 2, 1, 0]
    assert (samples.split.tolist(), samples.split.dtype) == ([TRAIN, TEST, VALIDATION, TEST], np.int8)
    assert made.day.tolist() == [0, 2, 1, 2]
    assert {name: codes.tolist() for name, codes in made.columns.items()} == {"pid": [1, 1, 0, 0]}
    assert made.known_items.tolist() == [False, True, False, False]
    assert made.known_users.tolist() == [False, True, False, False]
    assert [(one.field, one.split, one.values) for one in made.uncovered] == [
        ("pid", "validation", ("y",)), ("pid", "test", ("z",)),
    ]  # fmt: skip


SHOWN = [("a", 1, day * DAY + 5, day % 2, "x") for day in range(8)]


@pytest.mark.parametrize(
    ("options", "days", "left_out"),
    [
        ({}, range(8), {}),
        ({"train_days": 6}, range(8), {}),
        ({"train_days": 5}, range(1, 8), {"impressions before the training days (protocol.train_days: 5)": 1}),
        ({"last_day": date(1970, 1, 8)}, range(8), {}),
        ({"last_day": date(1970, 1, 7)}, range(7), {"impressions after protocol.last_day (1970-01-07)": 1}),
        (
            {"last_day": date(1970, 1, 7), "train_days": 2, "validation_days": 0, "test_days": 2}, range(3, 7),
            {
                "impressions after protocol.last_day (1970-01-07)": 1,
                "impressions before the training days (protocol.train_days: 2)": 3,
            },
        ),
    ],
)  # fmt: skip
def test_days_beyond_those_in_use_are_left_out_and_counted(options, days, left_out):
    _, made = by_day(SHOWN, **options)
    assert made.day.tolist() == list(days)
    assert made.samples.time.tolist() == [day * DAY + 5 for day in days]
    assert made.samples.left_out == left_out
    held_out = options.get("test_days", 1)
    validation = options.get("validation_days", 1)
    train = len(days) - held_out - validation
    assert made.samples.split.tolist() == [TRAIN] * train + [VALIDATION] * validation + [TEST] * held_out


def test_days_of_half_the_length_and_with_an_offset_are_counted():
    _, made = by_day(SHOWN, day_seconds=DAY // 2, day_offset=DAY // 2 - 5)
    assert made.day.tolist() == [2 * day + 1 for day in range(8)]
    assert by_day(SHOWN, day_offset=-6)[1].day.tolist() == [day - 1 for day in range(8)]


@pytest.mark.parametrize(("days", "enough"), [(2, False), (3, True)])
def test_a_training_day_must_be_left(days, enough):
    if enough:
        assert by_day(SHOWN[:days])[1].samples.split.tolist() == [TRAIN, VALIDATION, TEST]
    else:
        with pytest.raises(InputError, match="2 distinct days, but 1 validation and 1 test"):
            by_day(SHOWN[:days])


def test_impressions_are_split_by_day_and_nothing_else():
    tables = tables_of(BEHAVIORS, impressions=SHOWN)
    with pytest.raises(InputError, match="found next_item"):
        impression_samples(
            tables.impressions,
            encoded(tables),
            ProtocolParameters(name="next_item"),
            features=FeatureColumns(),
        )


def with_actions(rows):
    """The log of ``(user, item, time, action)`` rows, and the targets: page views."""
    frame = pd.DataFrame(rows, columns=["user", "item", "time", "action"])
    log = encoded(CanonicalTables(frame, pd.DataFrame({"item": range(1, 30), "category": "a"})))
    return frame, log


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("next_item", [(1, 2, 1, TRAIN), (1, 3, 2, VALIDATION), (1, 5, 4, TEST)]),
        ("last_item", [(1, 5, 4, None)]),
    ],
)
def test_only_selected_behaviours_are_targets_and_all_are_history(name, targets):
    rows = [
        (1, 1, 0, "pv"), (1, 2, 1, "pv"), (1, 3, 2, "pv"), (1, 4, 3, "buy"), (1, 5, 4, "pv"), (1, 6, 5, "cart"),
        *((user, item, item, "pv") for user in range(2, 8) for item in range(1, 4)),
    ]  # fmt: skip
    frame, log = with_actions(rows)
    protocol = ProtocolParameters(
        name=name, targets={"action": ["pv"]}, negative_pool="catalogue", test_users=0.3, validation_users=0.3
    )
    samples = catalogue_samples(replace(log, target=target_behaviors(frame, protocol)), protocol)
    own = np.flatnonzero((samples.user == 1) & (samples.label == 1))
    found = [
        (
            1,
            int(samples.item[k]),
            int(samples.history_end[k]),
            None if name == "last_item" else int(samples.split[k]),
        )
        for k in own
    ]
    assert found == targets


def test_targets_that_cannot_be_selected_are_explained():
    frame, _ = with_actions([(1, 1, 0, "pv"), (1, 2, 1, "buy")])
    with pytest.raises(
        InputError, match=r"protocol\.targets: no behaviour has action click; the values are pv, buy"
    ):
        target_behaviors(frame, ProtocolParameters(name="next_item", targets={"action": ["click"]}))
    with pytest.raises(InputError, match=r"protocol\.targets: acton is not a column of the behaviours"):
        target_behaviors(frame, ProtocolParameters(name="next_item", targets={"acton": ["pv"]}))
    with pytest.raises(
        ValueError, match="targets: select behaviours as targets of next_item or last_item, found rated"
    ):
        ProtocolParameters(name="rated", targets={"action": ["pv"]})
