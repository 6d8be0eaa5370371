"""Lists as the command line can say them."""

import pytest

from deep_interest.training.parameters import RunParameters


@pytest.mark.parametrize("said", [[1, 2], (1, 2), "1 2", " 1  2 "])
def test_seeds_may_be_a_text(said):
    assert RunParameters(seeds=said).seeds == (1, 2)


def test_one_seed_may_be_a_number():
    assert RunParameters(seeds=3).seeds == (3,)
    assert RunParameters(seeds=None).seeds is None


@pytest.mark.parametrize("said", ["1 two", "", [], 1.5])
def test_what_is_no_list_of_seeds_is_refused(said):
    with pytest.raises(ValueError, match="seeds"):
        RunParameters(seeds=said)
