"""Codes and offsets that are out of range raise before a kernel accesses memory outside its arrays."""

import numpy as np
import pytest
import torch
from support.ops import use_engine

from deep_interest.errors import InputError
from deep_interest.ops.adam import adam_rows
from deep_interest.ops.bounds import check_codes, check_offsets, check_slices
from deep_interest.ops.embedding import lookup
from deep_interest.ops.gradients import CoalescedGrad, GradientAccumulator, SparseGrad
from deep_interest.ops.histories import gather_slices, history_slices
from deep_interest.ops.jagged import Jagged, share_segments


@pytest.fixture(params=["compiled", "plain"])
def engine(request):
    """Run a test by each engine."""
    with use_engine(request.param):
        yield


BOTH_ENGINES = pytest.mark.usefixtures("engine")
BAD = [-1, -(2**31), 1_000, 50_000, 400_000_000]


@BOTH_ENGINES
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("code", BAD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # compiled and plain
def test_a_lookup_names_the_field_the_code_and_the_size(dtype, code, kind):
    table = torch.zeros(1_000, 4, dtype=dtype)
    codes = torch.tensor([0, 999, code, 5], dtype=kind)
    with pytest.raises(InputError, match=rf"item_id: code {code} at position 2 .* 1000 rows"):
        lookup([table], [{0: torch.tensor([1])}, {0: codes}], names=["item_id"])


@BOTH_ENGINES
def test_the_first_and_the_last_code_are_within_the_table():
    table = torch.arange(6.0).reshape(3, 2)
    (rows,) = lookup([table], [{0: torch.tensor([0, 2])}])
    assert rows.tolist() == [[0, 1], [4, 5]]
    check_codes(np.zeros(0, np.int32), 0, "an empty batch")


@BOTH_ENGINES
def test_every_position_is_checked():
    for length in (1, 7, 8, 33, 1_000):
        for position in {0, length // 2, length - 1}:
            codes = np.zeros(length, np.int32)
            codes[position] = 10
            with pytest.raises(InputError, match=f"code 10 at position {position} "):
                check_codes(codes, 10, "item_id")


def test_fields_of_one_group_have_as_many_codes():
    tables = [torch.zeros(5, 2), torch.zeros(5, 2)]
    with pytest.raises(InputError, match="item_id 2, shop 3"):
        lookup(tables, [{0: torch.zeros(2).int(), 1: torch.zeros(3).int()}], names=["item_id", "shop"])


@pytest.mark.parametrize("code", BAD)
def test_a_gradient_is_not_added_to_a_row_that_does_not_exist(code):
    table = torch.zeros(1_000, 2)
    accumulator = GradientAccumulator([table])
    accumulator.add(table, [SparseGrad(torch.tensor([3, code]), torch.ones(2, 2))])
    with pytest.raises(InputError, match=f"code {code} "):
        accumulator.coalesce()
    accumulator.add(table, [SparseGrad(torch.tensor([3, 3]), torch.ones(2, 2))])
    ((rows, gradient, _),) = accumulator.coalesce()
    assert (rows.tolist(), gradient.tolist()) == ([3], [[2, 2]])


@BOTH_ENGINES
@pytest.mark.parametrize("code", BAD)
def test_adam_does_not_update_a_row_that_does_not_exist(code):
    table, first, second = torch.zeros(3, 1_000, 2)
    with pytest.raises(InputError, match=f"code {code} "):
        adam_rows(
            table, CoalescedGrad(torch.tensor([code]), torch.ones(1, 2)), first, second,
            learning_rate=0.1, betas=(0.9, 0.999), eps=1e-8, step=1,
        )  # fmt: skip


@BOTH_ENGINES
@pytest.mark.parametrize(
    ("rows", "user", "end", "message"),
    [
        ([0, 4], 1, 1, "sample 4 is outside the 3 samples"),
        ([-1], 1, 1, "sample -1 is outside the 3 samples"),
        ([0, 1], 2, 1, "user: code 2 of sample 1 is outside the log of 2 users"),
        ([0, 1], -1, 1, "user: code -1 of sample 1"),
        ([0, 1], 400_000_000, 1, "user: code 400000000 of sample 1"),
        ([0, 1], 1, 5, "sample 1 has 5 behaviours before it, but user 1 has 4"),
        ([0, 1], 1, -1, "sample 1 has -1 behaviours before it"),
    ],
)
def test_a_sample_outside_the_log_is_named(rows, user, end, message):
    users, ends = torch.tensor([0, user, 0]).int(), torch.tensor([0, end, 0]).int()
    with pytest.raises(InputError, match=message):
        history_slices(torch.tensor(rows), users, ends, torch.tensor([0, 3, 7]), max_len=10)


@BOTH_ENGINES
@pytest.mark.parametrize(
    ("starts", "offsets", "message"),
    [
        ([0, 9], [0, 2, 4], "slice 1, of 2 rows from row 9 on, is outside the 10 rows"),
        ([-1, 0], [0, 2, 4], "slice 0, of 2 rows from row -1 on"),
        ([0, 0], [0, 4, 2], "offset 2 at position 2 is smaller than the one before, 4"),
        ([0, 0], [1, 2, 4], "found 1 to 4"),
        ([0], [0, 2, 4], "a start for each of 2 slices, found 1"),
    ],
)
def test_a_slice_outside_the_log_is_named(starts, offsets, message):
    with pytest.raises(InputError, match=message):
        gather_slices(
            {"item_id": torch.arange(10).int()}, torch.tensor(starts), Jagged(torch.tensor(offsets))
        )


@BOTH_ENGINES
def test_an_empty_slice_may_begin_anywhere():
    check_slices(np.array([99, 8]), np.array([0, 0, 2]), 10, "slices")


@BOTH_ENGINES
@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 5], "position 2"),
        ([0, 5, 4], "found 0 to 4"),
        ([0, 6], "found 0 to 6"),
        ([2, 5], "found 2"),
        ([], "no offset"),
    ],
)
def test_offsets_cover_all_values_in_order(offsets, message):
    with pytest.raises(InputError, match=message):
        check_offsets(np.array(offsets, np.int64), 5, "offsets")
    check_offsets(np.array([0, 0, 2, 5, 5]), 5, "offsets")


@BOTH_ENGINES
@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ([0, 2], "owner: code 2"),
        ([-1, 0], "owner: code -1"),
        ([1, 0], "history 0 at position 1 comes after history 1"),
    ],
)
def test_owners_are_histories_in_their_order(owner, message):
    with pytest.raises(InputError, match=message):
        share_segments(Jagged(torch.tensor([0, 2, 3])), torch.tensor(owner))
