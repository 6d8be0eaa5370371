import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from deep_interest.logs.hashing import Purpose, below, hash63, hash64

MASK = 2**64 - 1


def reference(seed, purpose, *keys):
    """The hash in Python's integers, which do not overflow."""

    def mix(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)

    golden = 0x9E3779B97F4A7C15
    state = mix((seed + golden * int(purpose)) & MASK)
    for key in keys:
        state = mix(((state ^ (key & MASK)) + golden) & MASK)
    return state


@given(
    st.integers(0, 2**32), st.sampled_from(list(Purpose)), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4)
)  # fmt: skip
def test_the_hash_equals_that_of_unbounded_integers(seed, purpose, keys):
    arrays = [np.array([key]) for key in keys]
    expected = reference(seed, purpose, *keys)
    assert hash64(seed, purpose, *arrays).tolist() == [expected]
    assert hash63(seed, purpose, *arrays).tolist() == [expected >> 1]


def test_the_first_step_is_that_of_published_splitmix64():
    """The generator with seed 0 returns mix(golden), which is the hash's state before any key for seed 0 and purpose 1."""
    state = 0xE220A8397B1DCDAF
    assert reference(0, 1) == state
    assert hash64(0, Purpose.TIE, 5).tolist() == [reference(0, 1, 5)]


@given(st.integers(0, MASK), st.integers(1, 2**63 - 1))
def test_a_hash_is_scaled_exactly(value, bound):
    scaled = below(np.array([value], np.uint64), bound)
    assert scaled.tolist() == [(value * bound) >> 64]
    assert below(np.array([value], np.uint64), np.array([bound])).tolist() == scaled.tolist()


def test_one_key_for_all_rows_is_the_same_as_one_for_each():
    rows = np.arange(5)
    assert (hash64(1, Purpose.TIE, rows, 7) == hash64(1, Purpose.TIE, rows, np.full(5, 7))).all()


@pytest.mark.parametrize("bound", [7, 1000, 2**31 + 11])
def test_scaled_hashes_of_consecutive_keys_are_uniform(bound):
    drawn = below(hash64(3, Purpose.TRAINING_NEGATIVE, np.arange(200_000), 1, 0), bound)
    bins = np.histogram(drawn, bins=7, range=(0, bound))[0]
    edges = np.linspace(0, bound, 8)
    expected = np.diff(np.ceil(edges)) / bound * len(drawn)
    assert chisquare(bins, expected).pvalue > 1e-4


@pytest.mark.parametrize("changed", ["seed", "purpose", "first key", "second key"])
def test_half_of_the_bits_change_with_each_argument(changed):
    rows = np.arange(20_000)
    before = hash64(1, Purpose.TIE, rows, 5)
    after = {
        "seed": hash64(2, Purpose.TIE, rows, 5),
        "purpose": hash64(1, Purpose.USER_SPLIT, rows, 5),
        "first key": hash64(1, Purpose.TIE, rows + 1, 5),
        "second key": hash64(1, Purpose.TIE, rows, 6),
    }[changed]
    changes = np.bitwise_count(before ^ after)
    assert changes.mean() == pytest.approx(32, abs=0.2)
    assert changes.var() == pytest.approx(16, abs=1)
