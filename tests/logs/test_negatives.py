import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deep_interest.logs.negatives import sample_negatives


def draw(users, seen, pool, *, weights=None, seed=0):
    return sample_negatives(
        np.asarray(users), seen_users=np.array([u for u, _ in seen]), seen_items=np.array([i for _, i in seen]),
        pool=np.asarray(pool), weights=weights, rng=np.random.default_rng(seed),
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8)), min_size=1, max_size=32),
    st.lists(st.integers(1, 4), min_size=1, max_size=50),
    st.booleans(),
)
def test_a_negative_is_never_an_item_of_the_users_own_history(seen, users, weighted):
    pool = np.arange(1, 9)
    weights = np.arange(1.0, 9.0) if weighted else None
    negatives = draw(users, seen, pool, weights=weights)
    for user, negative in zip(users, negatives, strict=True):
        own = {item for other, item in seen if other == user}
        assert (negative == 0) == (own >= set(pool))
        assert negative not in own


def test_the_same_seed_draws_the_same_items_and_another_seed_others():
    users, seen, pool = np.arange(1, 200), [(1, 1)], np.arange(1, 100)
    assert list(draw(users, seen, pool)) == list(draw(users, seen, pool))
    assert list(draw(users, seen, pool)) != list(draw(users, seen, pool, seed=1))


def test_uniform_draws_are_uniform_over_what_the_user_has_not_touched():
    negatives = draw(np.ones(60_000, int), [(1, 2), (1, 4)], [1, 2, 3, 4, 5])
    share = np.bincount(negatives, minlength=6) / len(negatives)
    np.testing.assert_allclose(share, [0, 1 / 3, 0, 1 / 3, 0, 1 / 3], atol=0.01)


def test_popularity_draws_follow_the_weights():
    negatives = draw(np.ones(60_000, int), [(1, 3)], [1, 2, 3], weights=np.array([1.0, 3.0, 6.0]))
    share = np.bincount(negatives, minlength=4) / len(negatives)
    np.testing.assert_allclose(share, [0, 0.25, 0.75, 0], atol=0.01)


def test_a_user_who_has_touched_all_but_one_of_many_items_is_served():
    pool = np.arange(1, 2001)
    seen = [(1, item) for item in range(1, 2000)]
    assert list(draw([1, 1], seen, pool)) == [2000, 2000]
