"""Tables of reduced precision: what they store, and the rows that a lookup returns."""

import numpy as np
import pytest
import torch
from support.ops import partitioned, use_engine

from deep_interest.errors import InputError
from deep_interest.ops.embedding import lookup
from deep_interest.ops.packed_tables import PackedTable, pack_table, packed_bytes

PRECISIONS = ("float16", "bfloat16", "int8")


def table_of(rows=50, width=18, seed=0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * 0.01


def looked_up(table, codes):
    return lookup([table], [{0: torch.tensor(codes, dtype=torch.int32)}])[0]


def test_an_int8_row_is_multiples_of_its_largest_value_over_127():
    packed = pack_table(
        torch.tensor([[1.27, -0.634, 0.0, 0.016], [0.0, 0.0, 0.0, 0.0]]), "int8", name="item_id"
    )
    assert packed.values.tolist() == [[127, -63, 0, 2], [0, 0, 0, 0]]  # 63.4 and 1.6 steps of 0.01
    assert packed.scales.tolist() == pytest.approx([0.01, 0.0])
    np.testing.assert_allclose(looked_up(packed, [1, 0])[1], [1.27, -0.63, 0.0, 0.02], rtol=1e-6)
    assert looked_up(packed, [1, 0])[0].tolist() == [0, 0, 0, 0]


def test_half_precision_rows_are_the_numbers_of_numpy():
    numbers = np.float32([1 / 3, -1.0, 6.0e-8, -3.0e-5, 65504.0, 0.0, 1e-9, -0.1])
    packed = pack_table(torch.from_numpy(numbers).unsqueeze(0), "float16", name="item_id")
    np.testing.assert_array_equal(looked_up(packed, [0])[0], numbers.astype(np.float16).astype(np.float32))
    packed = pack_table(torch.from_numpy(numbers).unsqueeze(0), "bfloat16", name="item_id")
    bits = numbers.view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16  # to 16 bits, ties to even
    np.testing.assert_array_equal(looked_up(packed, [0])[0], nearest.astype(np.uint32).view(np.float32))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_compiled_lookup_returns_the_rows_of_the_plain_one(precision, threads):
    tables = [pack_table(table_of(), precision, name="a"), table_of(9, 5, seed=1)]
    rng = np.random.default_rng(0)
    groups = [
        {0: torch.from_numpy(rng.integers(0, 50, 40)), 1: torch.from_numpy(rng.integers(0, 9, 40)).int()},
        {1: torch.zeros(3, dtype=torch.int32)},
        {0: torch.zeros(0, dtype=torch.int32)},
    ]
    with use_engine("plain"):
        plain = lookup(tables, groups)
    with partitioned(threads):
        compiled = lookup(tables, groups)
    for ours, expected in zip(compiled, plain, strict=True):
        assert ours.dtype == torch.float32
        np.testing.assert_array_equal(ours, expected)
    np.testing.assert_array_equal(plain[0][:, :18], tables[0].all_rows()[groups[0][0]])


@pytest.mark.parametrize(
    ("precision", "largest"), [("float16", 2**-11), ("bfloat16", 2**-8), ("int8", 0.5 / 127)]
)
def test_the_rounding_error_is_at_most_half_a_step(precision, largest):
    table = table_of()
    error = (pack_table(table, precision, name="item_id").all_rows() - table).abs()
    bound = table.abs().amax(1, keepdim=True) if precision == "int8" else table.abs()
    assert (error <= bound * largest * (1 + 1e-5) + 3e-8).all()


@pytest.mark.parametrize(
    ("precision", "expected"), [("float16", 36), ("bfloat16", 36), ("int8", 22), ("float32", 72)]
)
def test_a_row_needs_so_many_bytes(precision, expected):
    assert packed_bytes(1, 18, precision) == expected
    if precision != "float32":
        assert pack_table(table_of(), precision, name="item_id").nbytes == 50 * expected


def test_codes_outside_a_packed_table_are_errors():
    with pytest.raises(InputError, match="item_id: code 50 at position 1 is outside the table of 50 rows"):
        lookup([pack_table(table_of(), "int8", name="x")], [{0: torch.tensor([3, 50])}], names=["item_id"])


@pytest.mark.parametrize(
    ("precision", "value"), [("float16", 7e4), ("int8", float("inf")), ("bfloat16", float("nan"))]
)
def test_values_that_a_precision_cannot_hold_are_errors(precision, value):
    with pytest.raises(InputError, match=f"item_id: a value is not finite, or too large for {precision}"):
        pack_table(torch.tensor([[1.0, value]]), precision, name="item_id")


def test_a_lookup_reads_memory_mapped_tables(tmp_path):
    packed = pack_table(table_of(), "int8", name="item_id")
    np.save(tmp_path / "values.npy", packed.values.numpy())
    mapped = PackedTable(torch.from_numpy(np.load(tmp_path / "values.npy", mmap_mode="c")), packed.scales)
    np.testing.assert_array_equal(looked_up(mapped, [7, 7, 2]), packed.all_rows()[[7, 7, 2]])
