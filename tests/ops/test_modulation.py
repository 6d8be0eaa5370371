import numpy as np
import pytest
import torch
from support.ops import assert_implementations_agree, partitioned

from deep_interest.errors import InputError
from deep_interest.ops.gradients import GradientAccumulator
from deep_interest.ops.jagged import Jagged
from deep_interest.ops.modulation import modulate, modulated_sum
from deep_interest.ops.segments import segment_sum

CODES = [torch.tensor([0, 2, 2, 1, 0], dtype=torch.int32), torch.tensor([1, 1, 0, 1, 0], dtype=torch.int32)]
NAMES = ["rating", "gap"]


def test_a_row_is_scaled_and_shifted_by_the_rows_of_its_codes():
    """(10, 20) with scale (0.1, 0) + (0, -0.5) and shift (1, 2) + (0, 3): (10 · 1.1 + 1, 20 · 0.5 + 5)."""
    tables = [torch.tensor([[0.1, 0.0, 1.0, 2.0]]), torch.tensor([[9.0] * 4, [0.0, -0.5, 0.0, 3.0]])]
    codes = [torch.tensor([0], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)]
    row, appended = torch.tensor([[10.0, 20.0]]), torch.tensor([[7.0]])
    for kind in (torch.float32, torch.float64):
        found = modulate(
            row.to(kind), [table.to(kind) for table in tables], codes, names=NAMES, appended=appended.to(kind)
        )
        torch.testing.assert_close(found, torch.tensor([[12.0, 15.0, 7.0]], dtype=kind))


@pytest.mark.parametrize("appended", [0, 3])
def test_implementations_agree(appended):
    def operation(values, first, second, more):
        return modulate(values, [first, second], CODES, names=NAMES, appended=more if appended else None)

    assert_implementations_agree(operation, (5, 4), (3, 8), (2, 8), (5, appended))


def test_without_behaviours_there_is_nothing_to_scale():
    codes = [torch.zeros(0, dtype=torch.int32)]
    table = torch.ones(2, 8, requires_grad=True)
    values = torch.zeros(0, 4, requires_grad=True)
    modulate(values, [table], codes, names=["rating"]).sum().backward()
    assert table.grad.abs().sum() == 0


def test_the_accumulator_gets_the_rows_that_occur_with_the_gradients_that_autograd_would():
    torch.manual_seed(0)
    values, tables = torch.randn(5, 4), [torch.randn(size, 8, requires_grad=True) for size in (4, 2)]
    weight = torch.randn(5, 4)
    (modulate(values, tables, CODES, names=NAMES) * weight).sum().backward()
    expected = [table.grad.clone() for table in tables]
    for table in tables:
        table.grad = None
    accumulator = GradientAccumulator(tables)
    with partitioned(2):
        (modulate(values, tables, CODES, names=NAMES, accumulator=accumulator) * weight).sum().backward()
    rating, gap = accumulator.coalesce()
    assert rating.rows.tolist() == [0, 1, 2]  # code 3 does not occur
    torch.testing.assert_close(rating.gradient, expected[0][:3])
    torch.testing.assert_close(gap.gradient, expected[1])


def test_without_kernels_the_accumulator_gets_the_same_gradients(monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr("deep_interest.ops.runtime.engine._engine", "plain")
    torch.manual_seed(0)
    values, tables = torch.randn(5, 4), [torch.randn(size, 8, requires_grad=True) for size in (4, 2)]
    modulate(values, tables, CODES, names=NAMES).square().sum().backward()
    expected = [table.grad.clone() for table in tables]
    for table in tables:
        table.grad = None
    accumulator = GradientAccumulator(tables)
    modulate(values, tables, CODES, names=NAMES, accumulator=accumulator).square().sum().backward()
    for grad, dense in zip(accumulator.coalesce(), expected, strict=True):
        found = torch.zeros_like(dense).index_add_(0, grad.rows, grad.gradient * grad.mask)
        torch.testing.assert_close(found, dense)


def test_a_code_outside_its_table_is_named():
    with pytest.raises(InputError, match=r"gap: .*2"):
        modulate(
            torch.zeros(1, 2), [torch.zeros(3, 4), torch.zeros(2, 4)],
            [torch.tensor([0], dtype=torch.int32), torch.tensor([2], dtype=torch.int32)], names=NAMES,
        )  # fmt: skip


def test_the_sums_have_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    codes = [torch.tensor(rng.integers(0, 6, 40_000), dtype=torch.int32)]
    values, table = torch.randn(40_000, 32), torch.randn(6, 64, requires_grad=True)
    found = []
    for threads in (1, 2):
        with partitioned(threads):
            table.grad = None
            modulate(values, [table], codes, names=["rating"]).square().sum().backward()
            found.append(table.grad.clone())
    assert torch.equal(*found)


SEGMENTS = Jagged(torch.tensor([0, 2, 2, 4, 5]))


def test_a_sum_is_that_of_the_modulated_rows():
    """(10, 20) · (1.1, 1) + (1, 2), and (1, 1) · (1, 0.5) + (0, 3), next to an empty segment."""
    table = torch.tensor([[0.1, 0.0, 1.0, 2.0], [0.0, -0.5, 0.0, 3.0]])
    codes = [torch.tensor([0, 1], dtype=torch.int32)]
    segments = Jagged(torch.tensor([0, 2, 2]))
    found = modulated_sum(
        torch.tensor([[10.0, 20.0], [1.0, 1.0]]), [table], codes, segments, names=["rating"]
    )
    torch.testing.assert_close(found, torch.tensor([[13.0, 25.5], [0.0, 0.0]]))


@pytest.mark.parametrize("fields", [1, 2, 3, 4])
@pytest.mark.parametrize(("appended", "dim"), [(0, 0), (3, 0), (0, 6), (3, 6)])
def test_implementations_of_the_sum_agree(fields, appended, dim):
    rng = np.random.default_rng(0)
    codes = [torch.tensor(rng.integers(0, 3, 5), dtype=torch.int32) for _ in range(fields)]

    def operation(values, more, *tables):
        return modulated_sum(
            values, tables[:fields], codes, SEGMENTS,
            names=[f"field {f}" for f in range(fields)], appended=more if appended else None, embeddings=tables[fields:],
        )  # fmt: skip

    embeddings = [(3, dim)] * fields if dim else []
    assert_implementations_agree(operation, (5, 4), (5, appended), *[(3, 8)] * fields, *embeddings)


def test_the_embeddings_of_a_segment_are_summed_after_its_rows():
    """Two behaviours of code 1 and one of code 0 in the first segment, none in the second: (1, 2) · 2 + (10, 20)."""
    codes = [torch.tensor([1, 0, 1], dtype=torch.int32)]
    found = modulated_sum(
        torch.ones(3, 2), [torch.zeros(2, 4)], codes, Jagged(torch.tensor([0, 3, 3])),
        names=["rating"], embeddings=[torch.tensor([[10.0, 20.0], [1.0, 2.0]])],
    )  # fmt: skip
    torch.testing.assert_close(found, torch.tensor([[3.0, 3.0, 12.0, 24.0], [0.0] * 4]))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_accumulator_gets_the_gradients_of_summed_embeddings(threads):
    rng, lengths = np.random.default_rng(0), torch.randint(0, 90, (900,))
    segments = Jagged(torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]))
    rows = segments.total
    codes = [torch.tensor(rng.integers(0, 6, rows), dtype=torch.int32) for _ in range(2)]
    scales = [torch.randn(7, 16, requires_grad=True) for _ in range(2)]
    embeddings = [torch.randn(7, 5, requires_grad=True) for _ in range(2)]
    values, weight = torch.randn(rows, 8), torch.randn(len(lengths), 18)
    rows_of = [table[field.long()] for table, field in zip(embeddings, codes, strict=True)]
    modulated = modulate(values, scales, codes, names=["a", "b"], appended=torch.cat(rows_of, dim=1))
    expected = torch.autograd.grad((segment_sum(modulated, segments) * weight).sum(), [*scales, *embeddings])
    accumulator = GradientAccumulator([*scales, *embeddings])
    with partitioned(threads):
        sums = modulated_sum(
            values, scales, codes, segments, names=["a", "b"], embeddings=embeddings, accumulator=accumulator
        )
        (sums * weight).sum().backward()
    for grad, of_table in zip(accumulator.coalesce(), expected, strict=True):
        assert grad.rows.tolist() == [0, 1, 2, 3, 4, 5]  # code 6 does not occur
        torch.testing.assert_close(grad.gradient, of_table[:6], rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_sum_is_the_sum_of_modulate_also_in_its_gradients(threads):
    rng, lengths = np.random.default_rng(0), torch.randint(0, 90, (900,))
    segments = Jagged(torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]))
    rows = segments.total
    codes = [torch.tensor(rng.integers(0, 6, rows), dtype=torch.int32) for _ in range(3)]
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((rows, 32), (rows, 5), *[(6, 64)] * 3)]
    weight, found = torch.randn(len(lengths), 37), []
    for together in (False, True):
        values, more, *tables = leaves
        with partitioned(threads):
            if together:
                sums = modulated_sum(values, tables, codes, segments, names=["a", "b", "c"], appended=more)
            else:
                modulated = modulate(values, tables, codes, names=["a", "b", "c"], appended=more)
                sums = segment_sum(modulated, segments)
            found.append([sums.detach(), *torch.autograd.grad((sums * weight).sum(), leaves)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def test_the_accumulator_gets_the_gradients_of_the_sum():
    torch.manual_seed(0)
    values, tables = torch.randn(5, 4), [torch.randn(size, 8, requires_grad=True) for size in (4, 2)]
    modulated_sum(values, tables, CODES, SEGMENTS, names=NAMES).square().sum().backward()
    expected = [table.grad.clone() for table in tables]
    for table in tables:
        table.grad = None
    accumulator = GradientAccumulator(tables)
    modulated_sum(
        values, tables, CODES, SEGMENTS, names=NAMES, accumulator=accumulator
    ).square().sum().backward()
    rating, gap = accumulator.coalesce()
    assert rating.rows.tolist() == [0, 1, 2]
    torch.testing.assert_close(rating.gradient, expected[0][:3])
    torch.testing.assert_close(gap.gradient, expected[1])


def test_a_code_outside_its_table_is_named_by_the_sum():
    with pytest.raises(InputError, match=r"rating: .*3"):
        modulated_sum(
            torch.zeros(1, 2), [torch.zeros(3, 4)], [torch.tensor([3], dtype=torch.int32)],
            Jagged(torch.tensor([0, 1])), names=["rating"],
        )  # fmt: skip
