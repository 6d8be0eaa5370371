import torch
from support.ops import partitioned

from deep_interest.ops.adam import adam, adam_rows
from deep_interest.ops.gradients import CoalescedGrad

IMPLEMENTATIONS = ((torch.float64, 1), (torch.float32, 1), (torch.float32, 3))
OPTIONS = {"learning_rate": 0.1, "betas": (0.9, 0.999), "eps": 1e-8}


def test_both_implementations_agree_with_torchs_adam():
    torch.manual_seed(0)
    start, gradients = torch.randn(50, dtype=torch.float64), torch.randn(5, 50, dtype=torch.float64)
    theirs = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([theirs], lr=0.1)
    for gradient in gradients:
        theirs.grad = gradient
        optimizer.step()
    for dtype, threads in IMPLEMENTATIONS:
        values, first, second = start.to(dtype).clone(), *(torch.zeros(50, dtype=dtype) for _ in "ab")
        with partitioned(threads):
            for step, gradient in enumerate(gradients.to(dtype), start=1):
                adam(values, gradient, first, second, **OPTIONS, step=step)
        tolerance = 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(values.double(), theirs.detach(), atol=tolerance, rtol=tolerance)


def test_implementations_on_rows_agree_and_leave_other_rows_unchanged():
    results = []
    for dtype, threads in IMPLEMENTATIONS:
        torch.manual_seed(0)
        table, first, second = (
            torch.randn(6, 3, dtype=torch.float64).to(dtype),
            *(torch.zeros(6, 3, dtype=dtype) for _ in "ab"),
        )
        start = table.clone()
        with partitioned(threads):
            for step, rows in enumerate(([4, 1], [1], [0, 1, 4]), start=1):
                gradient = torch.full((len(rows), 3), float(step), dtype=dtype)
                rows_and_gradients = CoalescedGrad(torch.tensor(rows), gradient)
                adam_rows(table, rows_and_gradients, first, second, **OPTIONS, step=step)
        assert torch.equal(table[[2, 3, 5]], start[[2, 3, 5]])
        results.append((table.double(), first.double(), second.double()))
    for ours in results[1:]:
        torch.testing.assert_close(ours, results[0], atol=1e-5, rtol=1e-5)


def test_padding_entries_have_no_effect():
    torch.manual_seed(0)
    gradient, results = torch.randn(2, 3, dtype=torch.float64), []
    for rows_and_gradients in (
        CoalescedGrad(torch.tensor([1, 4]), gradient),
        CoalescedGrad(
            torch.tensor([1, 4, 4]), torch.cat([gradient, torch.zeros(1, 3)]), torch.tensor([[1.0], [1], [0]])
        ),
    ):
        table, first, second = (torch.ones(6, 3, dtype=torch.float64) for _ in "abc")
        adam_rows(table, rows_and_gradients, first, second, **OPTIONS, step=3)
        results.append((table, first, second))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
