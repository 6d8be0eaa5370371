"""Weighted draws within groups."""

import numpy as np
import pytest

from deep_interest.simulation.randomness import WeightedGroups, generator

GROUPS = WeightedGroups.of(
    keys=np.array([7, 3, 7, 3, 7]),
    members=np.array([10, 11, 12, 13, 14]),
    weights=np.array([1.0, 2.0, 1.0, 6.0, 2.0]),
)


@pytest.mark.parametrize(
    ("key", "uniform", "member"),
    [(3, 0.0, 11), (3, 0.24, 11), (3, 0.26, 13), (3, 0.999, 13), (7, 0.24, 10), (7, 0.26, 12), (7, 0.51, 14)],
)
def test_a_member_is_drawn_in_proportion_to_its_weight_in_the_group(key, uniform, member):
    assert GROUPS.draw(np.array([key]), np.array([uniform])).tolist() == [member]


def test_a_missing_group_gives_minus_one():
    assert GROUPS.draw(np.array([0, 5, 9]), np.array([0.1, 0.1, 0.1])).tolist() == [-1, -1, -1]


def test_dense_keys_give_the_same_draws_as_sparse_ones():
    keys, members = np.array([0, 0, 1, 2, 2]), np.arange(5)
    weights = np.array([1.0, 3.0, 1.0, 1.0, 1.0])
    draws, uniforms = np.array([0, 0, 1, 2, 2, 3]), np.array([0.2, 0.3, 0.9, 0.4, 0.6, 0.5])

    dense = WeightedGroups.of(keys, members, weights).draw(draws, uniforms)
    sparse = WeightedGroups.of(keys * 10 + 1, members, weights).draw(draws * 10 + 1, uniforms)

    assert dense.tolist() == sparse.tolist() == [0, 1, 2, 3, 4, -1]


def test_streams_and_blocks_share_no_random_numbers():
    draws = {generator(1, stream, block).random() for stream in ("users", "behaviors") for block in range(3)}

    assert len(draws) == 6
