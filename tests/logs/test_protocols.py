import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs import encoded, random_log, tables_of

from deep_interest.errors import InputError
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import catalogue_samples
from deep_interest.logs.samples import TEST, TRAIN, VALIDATION, Samples, known_to_training

# u1 has four behaviours, u2 three, u3 two; items 1 … 9 exist
LOG = [
    ("u1", 1, 10),
    ("u1", 2, 20),
    ("u1", 3, 30),
    ("u1", 4, 40),
    ("u2", 5, 10),
    ("u2", 6, 20),
    ("u2", 1, 30),
    ("u3", 2, 1),
    ("u3", 7, 2),
]


def positives(samples):
    rows = samples.label == 1
    return {
        (int(u), int(i), int(h), int(s))
        for u, i, h, s in zip(
            samples.user[rows],
            samples.item[rows],
            samples.history_end[rows],
            samples.split[rows],
            strict=True,
        )
    }


def test_next_item_tests_on_the_last_behaviour_and_validates_on_the_one_before():
    samples = catalogue_samples(encoded(tables_of(LOG, items=9)), ProtocolParameters(name="next_item"))
    assert positives(samples) == {
        (1, 2, 1, TRAIN),
        (1, 3, 2, VALIDATION),
        (1, 4, 3, TEST),
        (2, 6, 1, VALIDATION),
        (2, 1, 2, TEST),
    }
    assert samples.left_out == {"behaviors of users with fewer than 3 behaviors": 2}


def test_next_item_in_paper_mode_trains_up_to_the_last_but_one():
    samples = catalogue_samples(
        encoded(tables_of(LOG, items=9)), ProtocolParameters(name="next_item", mode="paper")
    )
    assert positives(samples) == {
        (1, 2, 1, TRAIN),
        (1, 3, 2, TRAIN),
        (1, 4, 3, TEST),
        (2, 6, 1, TRAIN),
        (2, 1, 2, TEST),
    }


def test_each_positive_has_one_negative_with_the_same_history():
    samples = catalogue_samples(encoded(tables_of(LOG, items=9)), ProtocolParameters(name="next_item"))
    assert list(samples.label) == [1, 0] * 5
    for name in ("user", "time", "history_end", "split"):
        values = getattr(samples, name)
        np.testing.assert_array_equal(values[::2], values[1::2])


@pytest.mark.parametrize("name", ["next_item", "last_item"])
@pytest.mark.parametrize("negatives", ["uniform", "popularity"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_negatives_are_outside_everything_the_user_ever_touched(name, negatives, seed):
    log = random_log(np.random.default_rng(seed))
    samples = catalogue_samples(
        log,
        ProtocolParameters(name=name, negatives=negatives, seed=seed, test_users=0.3, validation_users=0.3),
    )
    touched = set(zip(log.user.tolist(), log.item.tolist(), strict=True))
    rows = samples.label == 0
    assert rows.any()
    assert not touched & set(zip(samples.user[rows].tolist(), samples.item[rows].tolist(), strict=True))


@pytest.mark.parametrize("name", ["next_item", "last_item", "rated"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_history_never_contains_the_target_event(name, seed):
    log = random_log(np.random.default_rng(seed), ratings=True)
    samples = catalogue_samples(log, ProtocolParameters(name=name, test_users=0.3, validation_users=0.3))
    for user, item, time, end, label in zip(
        samples.user, samples.item, samples.time, samples.history_end, samples.label, strict=True
    ):
        run = slice(log.offsets[user], log.offsets[user + 1])
        items, times = log.item[run], log.time[run]
        if label or name == "rated":
            assert items[end] == item
            assert times[end] == time
        assert (times[:end] <= time).all()
        assert item not in items[:end]  # the log's items are distinct per user


def test_training_negatives_come_from_items_with_a_training_behaviour():
    rows = [(user, item, time) for user in range(40) for time, item in enumerate([1, 2, 3])] + [
        (99, 7, 0),
        (99, 8, 1),
        (99, 9, 2),
    ]
    log = encoded(tables_of([*rows, (98, 4, 0), (98, 5, 1), (98, 6, 2), (98, 1, 3)], items=30))
    known = catalogue_samples(log, ProtocolParameters(name="next_item"))
    train = (known.label == 0) & (known.split == TRAIN)
    assert set(known.item[train]) <= set(range(1, 10))
    anywhere = catalogue_samples(log, ProtocolParameters(name="next_item", negative_pool="catalogue"))
    assert max(anywhere.item[anywhere.label == 0]) > 9


@pytest.mark.parametrize("negatives", ["uniform", "popularity"])
def test_training_negatives_know_nothing_of_validation_and_test_targets(negatives):
    """Items 11 to 20 occur as validation and test targets alone: training cannot have heard of them."""
    rows = [(user, item, time) for user in range(30)
            for time, item in enumerate([1 + user % 5, 6 + user % 5, 11 + user % 5, 16 + user % 5])]  # fmt: skip
    samples = catalogue_samples(
        encoded(tables_of(rows, items=25)), ProtocolParameters(name="next_item", negatives=negatives)
    )
    drawn = samples.item[(samples.label == 0) & (samples.split == TRAIN)]
    assert len(drawn) == 30
    assert set(drawn.tolist()) <= set(range(1, 11))


def test_negatives_by_popularity_do_not_depend_on_which_items_are_test_targets():
    """The same training behaviours with other targets: the same training negatives."""

    def drawn(targets):
        rows = [(user, item, time) for user in range(40)
                for time, item in enumerate([1 + user % 4, 5 + user % 3, targets[user % 2], targets[2 + user % 2]])]  # fmt: skip
        samples = catalogue_samples(
            encoded(tables_of(rows, items=30)), ProtocolParameters(name="next_item", negatives="popularity")
        )
        return samples.item[(samples.label == 0) & (samples.split == TRAIN)].tolist()

    assert drawn([20, 21, 22, 23]) == drawn([24, 25, 26, 27])


def test_users_who_have_touched_every_item_are_left_out_and_counted():
    rows = [("all", item, item) for item in range(1, 5)] + [("some", item, item) for item in (1, 2, 3)]
    more = [("third", item, item) for item in (1, 2, 3, 5)]
    samples = catalogue_samples(
        encoded(tables_of(rows + more, items=5)),
        ProtocolParameters(name="next_item", negative_pool="catalogue"),
    )
    assert samples.left_out == {}
    rows += [("all", 5, 5)]
    samples = catalogue_samples(
        encoded(tables_of(rows + more, items=5)),
        ProtocolParameters(name="next_item", negative_pool="catalogue"),
    )
    assert samples.left_out == {
        "targets of users who have interacted with all items that may be sampled (no negative possible)": 4
    }
    assert 1 not in samples.user


def test_last_item_splits_by_user_and_uses_only_the_last_behaviour():
    log = random_log(np.random.default_rng(0), users=200)
    samples = catalogue_samples(log, ProtocolParameters(name="last_item"))
    long_enough = log.length >= 3
    assert (samples.label == 1).sum() == long_enough.sum()
    assert set(samples.history_end) == set(log.length[long_enough] - 1)
    by_split = [set(samples.user[samples.split == split]) for split in (TRAIN, VALIDATION, TEST)]
    assert len(by_split[2]) == round(0.1 * long_enough.sum())
    assert sum(map(len, by_split)) == len(set.union(*by_split))


def test_rated_labels_from_four_on_and_starts_with_an_empty_history():
    rows = [
        (user, item, item, rating) for user in range(20) for item, rating in ((1, 3.5), (2, 4.0), (3, 5.0))
    ]
    samples = catalogue_samples(
        encoded(tables_of(rows)), ProtocolParameters(name="rated", test_users=0.25, validation_users=0.2)
    )
    assert list(samples.label[:3]) == [0, 1, 1]
    assert list(samples.history_end[:3]) == [0, 1, 2]
    users = [len(set(samples.user[samples.split == split])) for split in (TRAIN, VALIDATION, TEST)]
    assert users == [12, 3, 5]


def test_rated_gives_the_papers_user_counts():
    share = 38_493 / 138_493
    assert round(138_493 * share) == 38_493
    rows = [(user, 1, 1, 5.0) for user in range(138)]
    samples = catalogue_samples(encoded(tables_of(rows)), ProtocolParameters(name="rated", test_users=share))
    assert (samples.split == TEST).sum() == 38


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (ProtocolParameters(name="rated"), "needs ratings"),
        (ProtocolParameters(name="by_day"), "needs impressions"),
        (
            ProtocolParameters(name="next_item", min_behaviors=9),
            "no train and no validation and no test samples",
        ),
    ],
)
def test_a_log_that_cannot_serve_the_protocol_is_refused(protocol, message):
    with pytest.raises(InputError, match=message):
        catalogue_samples(encoded(tables_of(LOG, items=9)), protocol)


TIED = [
    ("u", 1, 1),
    ("u", 2, 5),
    ("u", 3, 5),
    ("u", 4, 5),
    ("u", 5, 9),
    ("v", 6, 5),
    ("v", 7, 5),
    ("v", 8, 5),
]


@pytest.mark.parametrize(("ties", "ends"), [("before", [1, 2, 3, 4, 1, 2]), ("exclude", [1, 1, 1, 4, 0, 0])])
def test_behaviours_of_the_targets_own_time_are_in_its_history_or_not(ties, ends):
    """u's behaviours 2 to 4 share a time, and so do all of v's; the first behaviour of each is not a target."""
    log = encoded(tables_of(TIED, items=20))
    samples = catalogue_samples(log, ProtocolParameters(name="next_item", ties=ties))
    assert list(samples.history_end[::2]) == ends
    np.testing.assert_array_equal(samples.history_end[::2], samples.history_end[1::2])


@pytest.mark.parametrize(("ties", "ends"), [("before", [0, 1, 2, 3, 4]), ("exclude", [0, 1, 1, 1, 4])])
def test_rated_histories_follow_the_ties_parameter_too(ties, ends):
    rows = [(*row, 5.0) for row in TIED] + [(f"w{k}", 1, 1, 1.0) for k in range(20)]
    log = encoded(tables_of(rows, items=20))
    samples = catalogue_samples(log, ProtocolParameters(name="rated", ties=ties))
    assert list(samples.history_end[samples.user == 1]) == ends


def test_what_training_holds_is_candidates_and_histories_of_training_samples():
    """u1's longest training history has items 1 and 2, its candidates 2 and 3; u2 and the unused u3 train nothing."""
    log = encoded(tables_of(LOG, items=9))
    samples = Samples(
        user=np.array([1, 1, 2]), item=np.array([2, 3, 9]), label=np.array([1, 0, 1]), time=np.zeros(3),
        history_end=np.array([1, 2, 2]), split=np.array([TRAIN, TRAIN, TEST]), left_out={},
    )  # fmt: skip
    items, users = known_to_training(log, samples)
    assert list(np.flatnonzero(items)) == [1, 2, 3]
    assert list(np.flatnonzero(users)) == [1]
