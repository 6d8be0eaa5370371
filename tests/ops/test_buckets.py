"""The kernels of SDIM's buckets."""

import numpy as np
import pytest

from deep_interest.ops.kernels.buckets import _reciprocal, _round_of


@pytest.mark.parametrize("bits", range(1, 65))
def test_the_round_of_each_bit_is_its_position_divided_by_the_bits_of_a_round(bits):
    words = [np.uint64(1 << position) for position in range(64)]
    assert [_round_of(word, _reciprocal(bits)) for word in words] == [
        position // bits for position in range(64)
    ]
