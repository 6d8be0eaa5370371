"""Choices by hash: uniform, never an item of the user's own, independent of the order of the rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.logs import encoded, random_log, tables_of

from deep_interest.logs.content_order import in_content_order
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.hashed_sampling import hashed_negatives, hashed_order, shuffled_users
from deep_interest.logs.hashing import Purpose
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import catalogue_samples
from deep_interest.logs.samples import TEST, TRAIN, VALIDATION
from deep_interest.logs.sequences import shown_negatives
from deep_interest.logs.vocabulary import Vocabulary

DAY = 86_400


def draw(users, seen, pool, *, positions=None, weights=None, seed=0):
    users = np.asarray(users)
    return hashed_negatives(
        users, np.arange(len(users)) if positions is None else positions,
        seen_users=np.array([u for u, _ in seen]), seen_items=np.array([i for _, i in seen]),
        pool=np.asarray(pool), weights=weights, seed=seed, purpose=Purpose.TRAINING_NEGATIVE,
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8)), min_size=1, max_size=32),
    st.lists(st.integers(1, 4), min_size=1, max_size=50),
    st.booleans(),
)
def test_a_negative_is_never_an_item_of_the_users_own_history(seen, users, weighted):
    pool = np.arange(1, 9)
    negatives = draw(users, seen, pool, weights=np.arange(1, 9) if weighted else None)
    for user, negative in zip(users, negatives, strict=True):
        own = {item for other, item in seen if other == user}
        assert (negative == 0) == (own >= set(pool))
        assert negative not in own


def test_uniform_negatives_are_uniform_over_what_the_user_has_not_touched():
    negatives = draw(np.ones(60_000, int), [(1, 2), (1, 4)], [1, 2, 3, 4, 5])
    counts = np.bincount(negatives, minlength=6)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert chisquare(counts[[1, 3, 5]]).pvalue > 1e-4


def test_negatives_by_popularity_follow_the_weights():
    negatives = draw(np.ones(60_000, int), [(1, 3)], [1, 2, 3], weights=np.array([1, 3, 6]))
    counts = np.bincount(negatives, minlength=4)
    assert counts[[0, 3]].tolist() == [0, 0]
    assert chisquare(counts[1:3], [15_000, 45_000]).pvalue > 1e-4


@pytest.mark.parametrize("weighted", [False, True])
def test_the_rare_items_that_remain_are_drawn_by_their_weights(weighted):
    """Two of 2,000 items remain, too rare for 64 draws from the whole pool: their weights are 1 and 3."""
    weights = np.full(2000, 10**6)
    weights[[0, 1]] = 1, 3
    seen = [(1, item) for item in range(3, 2001)]
    drawn = draw(np.ones(2000, int), seen, np.arange(1, 2001), weights=weights if weighted else None)
    assert set(drawn.tolist()) == {1, 2}
    assert np.mean(drawn == 2) == pytest.approx(0.75 if weighted else 0.5, abs=0.05)


def test_an_empty_pool_has_no_negative():
    assert draw([1, 2], [(1, 1)], []).tolist() == [0, 0]


@given(st.integers(0, 10_000))
def test_negatives_of_a_part_of_the_users_are_those_of_all(seed):
    rng = np.random.default_rng(seed)
    users, positions = rng.integers(1, 6, 80), rng.integers(0, 50, 80)
    seen = [
        (int(user), int(item))
        for user, item in zip(rng.integers(1, 6, 60), rng.integers(1, 20, 60), strict=True)
    ]
    everything = draw(users, seen, np.arange(1, 20), positions=positions)
    part = rng.permutation(np.flatnonzero(users <= 3))
    own = [pair for pair in seen if pair[0] <= 3] or [(99, 1)]
    assert (draw(users[part], own, np.arange(1, 20), positions=positions[part]) == everything[part]).all()


def test_another_seed_draws_other_items():
    users, pool = np.arange(1, 200), np.arange(1, 100)
    assert (draw(users, [(1, 1)], pool) == draw(users, [(1, 1)], pool)).all()
    assert (draw(users, [(1, 1)], pool) != draw(users, [(1, 1)], pool, seed=1)).mean() > 0.9


@given(st.integers(0, 10_000))
def test_the_order_of_events_does_not_depend_on_the_order_of_the_rows(seed):
    rng = np.random.default_rng(seed)
    events = np.unique(
        np.stack([rng.integers(1, 4, 60), rng.integers(1, 9, 60), rng.integers(0, 3, 60)]), axis=1
    )
    user, item, time = events
    expected = events[:, hashed_order(user, item, time, seed)]
    assert (np.lexsort((expected[2], expected[0])) == np.arange(events.shape[1])).all()
    shuffled = events[:, rng.permutation(events.shape[1])]
    assert (shuffled[:, hashed_order(*shuffled, seed)] == expected).all()


def test_each_order_of_tied_events_is_equally_likely():
    """Three events of each user at the same time, in one of six orders."""
    users = np.repeat(np.arange(1, 20_001), 3)
    items = np.tile([1, 2, 3], 20_000)
    order = hashed_order(users, items, np.zeros(60_000, np.int64), 0)
    orders = items[order].reshape(-1, 3) @ [100, 10, 1]
    assert chisquare(np.unique(orders, return_counts=True)[1]).pvalue > 1e-4
    assert len(np.unique(orders)) == 6


@pytest.mark.parametrize("name", ["last_item", "rated"])
def test_users_are_split_by_the_rank_of_their_hash_with_exact_shares(name):
    log = random_log(np.random.default_rng(1), users=100, longest=6, ratings=True)
    protocol = ProtocolParameters(name=name, sampling="hashed", test_users=0.25, validation_users=0.2)
    samples = catalogue_samples(log, protocol)
    users = np.flatnonzero(log.length >= (3 if name == "last_item" else 1))
    ranked = shuffled_users(users, 0)
    assert sorted(ranked) == users.tolist()
    tests = round(len(users) * 0.25)
    validations = round((len(users) - tests) * 0.2)
    expected = dict.fromkeys(users, TRAIN) | dict.fromkeys(ranked[:tests], TEST)
    expected |= dict.fromkeys(ranked[tests : tests + validations], VALIDATION)
    assert samples.split.tolist() == [expected[user] for user in samples.user]


def samples_of(tables, protocol):
    """Samples as a sorted table."""
    users = [tables.behaviors["user"]] + ([] if tables.impressions is None else [tables.impressions["user"]])
    vocabularies = {"users": Vocabulary.fit(*users), "items": Vocabulary.fit(tables.items["item"])}
    tables = in_content_order(tables, **vocabularies, seed=protocol.seed)
    if tables.impressions is None:
        frame = catalogue_samples(encoded(tables), protocol).frame()
    else:
        made = impression_samples(
            tables.impressions, encoded(tables), protocol, features=FeatureColumns(context=("pid",))
        )
        frame = made.samples.frame().assign(**made.columns)
    return frame.sort_values(list(frame), ignore_index=True)


def shuffled(tables, rng):
    """The same rows in another order."""
    behaviors = tables.behaviors.sample(frac=1, random_state=rng, ignore_index=True)
    impressions = tables.impressions
    if impressions is not None:
        impressions = impressions.sample(frac=1, random_state=rng, ignore_index=True)
    return replace(tables, behaviors=behaviors, impressions=impressions)


OPTIONS = [
    {"name": "next_item"}, {"name": "next_item", "negatives": "popularity", "ties": "exclude", "history_days": 1, "day_seconds": 2},
    {"name": "last_item", "negative_pool": "catalogue"}, {"name": "rated"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_samples_of_behaviours_do_not_depend_on_the_order_of_the_rows(options, seed):
    rng = np.random.default_rng(seed)
    rows = [
        (user, int(item) + 1, int(rng.integers(0, 5)), float(rng.integers(1, 6)))
        for user in range(40) for item in rng.choice(30, size=rng.integers(1, 9), replace=False)
    ]  # fmt: skip
    tables = tables_of(rows, items=30)
    protocol = ProtocolParameters(
        **options, sampling="hashed", seed=seed, test_users=0.3, validation_users=0.3
    )
    expected = samples_of(tables, protocol)
    pd.testing.assert_frame_equal(samples_of(shuffled(tables, rng), protocol), expected)
    touched = {(user, item) for user, item, *_ in rows}
    if options["name"] != "rated":
        negatives = expected[expected["label"] == 0]
        users = np.unique([row[0] for row in rows])
        items = tables.items["item"].to_numpy()
        pairs = zip(users[negatives["user"] - 1].tolist(), items[negatives["item"] - 1].tolist(), strict=True)
        assert not touched & set(pairs)


@pytest.mark.parametrize("list_negatives", [None, 1])
def test_samples_of_impressions_do_not_depend_on_the_order_of_the_rows(list_negatives):
    rng = np.random.default_rng(5)
    seen = [
        (user, int(item) + 1, int(rng.integers(0, 3 * DAY)))
        for user in range(20)
        for item in rng.choice(20, 5, replace=False)
    ]
    shown = [
        (user, int(rng.integers(1, 21)), int(rng.integers(0, 5)) * DAY // 2, int(rng.integers(2)), "x")
        for user in range(25) for _ in range(9)
    ]  # fmt: skip
    tables = tables_of(seen, items=20, impressions=shown)
    if list_negatives:
        impressions = tables.impressions.assign(request=tables.impressions["time"] // DAY)
        tables = replace(tables, impressions=impressions)
    protocol = ProtocolParameters(name="by_day", sampling="hashed", list_negatives=list_negatives)
    expected = samples_of(tables, protocol)
    assert (expected["split"] == "train").any()
    for _ in range(3):
        pd.testing.assert_frame_equal(samples_of(shuffled(tables, rng), protocol), expected)


def test_shown_negatives_are_drawn_evenly_from_the_newest_20():
    """One user with 30 skipped impressions, then 3,000 behaviours, so each of the newest 20 is expected 150 times."""
    shown = [("a", item, item, 0) for item in range(1, 31)]
    seen = [("a", 40, 1000 + k) for k in range(3000)]
    tables = tables_of(seen, items=40, impressions=shown)
    negatives = shown_negatives(encoded(tables), tables.impressions, seed=0, hashed=True)
    counts = np.bincount(negatives, minlength=41)
    assert counts[:11].tolist() == [0] * 11
    assert chisquare(counts[11:31]).pvalue > 1e-4
    assert (shown_negatives(encoded(tables), tables.impressions, seed=1, hashed=True) != negatives).any()
