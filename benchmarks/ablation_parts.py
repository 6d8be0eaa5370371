"""The parts of the engine that `ablation.py` switches off: each is a context in which a training step runs without it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any
from unittest.mock import patch

from train import make_fit

OPS = "deep_interest.ops"
TRAINING = "deep_interest.training"
OPERATIONS = {
    "embedding lookup": "embedding",
    "MLP": "mlp",
    "attention unit and pooling": "attention",
    "GRU": "gru",
    "segment sums, softmax and expansion": "segments",
    "weighted sums and inner products": "jagged_products",
    "log loss": "loss",
}
"""Public operations by what they compute: the module whose compiled implementation is switched off."""

Off = Callable[[], AbstractContextManager[Any]]


def steps_off(fit) -> dict[str, Off]:
    """Contexts in which the steps of a fit run without one part, by name of the part."""
    parts: dict[str, Off] = {"whole engine": lambda: _plain_engine(fit)}
    for name, module in OPERATIONS.items():
        parts[f"kernels: {name}"] = _replaced(f"{OPS}.{module}.can_use_compiled", lambda *tensors: False)
    plain = lambda: "plain"  # noqa: E731
    return parts | {
        "kernels: slices of the log": _replaced(f"{OPS}.histories.current_engine", plain),
        "kernels: bounds checks": _replaced(f"{OPS}.bounds.current_engine", plain),
        "kernels: coalescing of row-sparse gradients": _replaced(f"{OPS}.gradients.coalesce", _coalesce_by_torch),
        "kernels: row-sparse Adam": _replaced(f"{TRAINING}.update_rules.adam_rows", _plain_adam_rows),
        "dense Adam: torch.optim.Adam(fused=True) instead": _replaced(f"{TRAINING}.update_rules.adam", _fused_adam),
        "thread pool: concurrent.futures instead": _replaced(f"{OPS}.runtime.thread_pool.parallel_for", _parallel_for),
        "torch's threads for the kernels": lambda: patch.object(fit, "_threads", nullcontext),
        "pool of scratch buffers": _replaced(f"{TRAINING}.loop.use_pool", nullcontext),
        "gradient accumulation outside autograd": lambda: patch.object(fit.optimizer, "accumulate", nullcontext),
        "prefetching": _without_prefetching,
    }  # fmt: skip


def fit_without_huge_pages(samples, **options):
    """A fit whose tables and moments are on ordinary pages."""
    with ExitStack() as stack:
        for module in ("optimizers", "update_rules"):
            stack.enter_context(patch(f"{TRAINING}.{module}.use_huge_pages", lambda tensor: tensor))
        return make_fit(samples, **options)


def _replaced(target: str, replacement: Any) -> Off:
    return lambda: patch(target, replacement)


@contextmanager
def _plain_engine(fit) -> Iterator[None]:
    from deep_interest.ops.runtime.engine import set_engine

    set_engine("plain")
    try:
        with patch.object(fit, "_threads", nullcontext):
            yield
    finally:
        set_engine(None)


def _coalesce_by_torch(grads, table, slots):
    """Sum row-sparse gradients by row: sort the distinct codes, add up by ``index_add``."""
    import torch

    from deep_interest.ops.gradients import CoalescedGrad

    rows, inverse = torch.cat([each.codes for each in grads]).unique(return_inverse=True)
    width = table.shape[1]
    values = torch.cat([each.gradient[:, each.column : each.column + width] for each in grads])
    return CoalescedGrad(rows.long(), values.new_zeros(len(rows), width).index_add_(0, inverse, values))


def _plain_adam_rows(*arguments, **options) -> None:
    from deep_interest.ops.adam import adam_rows

    with patch(f"{OPS}.adam.can_use_compiled", lambda *tensors: False):
        adam_rows(*arguments, **options)


def _fused_adam(parameters, gradient, *moments, learning_rate, betas, eps, step) -> None:
    optimizer = _fused_optimizer(parameters, betas, eps)
    optimizer.param_groups[0]["params"][0].grad = gradient
    optimizer.param_groups[0]["lr"] = learning_rate
    optimizer.step()


@cache
def _fused_optimizer(parameters, betas, eps):
    import torch

    return torch.optim.Adam([torch.nn.Parameter(parameters)], betas=betas, eps=eps, fused=True)


@cache
def _executor(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers)


def _parallel_for(task: Callable[[int], None], workers: int) -> None:
    """As `thread_pool.parallel_for`, by the standard library."""
    futures = [_executor(workers).submit(task, 1 + index) for index in range(workers)] if workers else []
    task(0)
    for future in futures:
        future.result()


@contextmanager
def _without_prefetching() -> Iterator[None]:
    with ExitStack() as stack:
        for module, names in {
            "embedding": ["gather_rows"],
            "gradients": ["add_grouped_rows"],
            "histories": ["find_slices", "copy_slices"],
            "adam": ["update_rows"],
        }.items():
            for name in names:
                original = getattr(import_module(f"{OPS}.{module}"), name)
                stack.enter_context(patch(f"{OPS}.{module}.{name}", compiled_without_prefetching(original)))
        yield


@cache
def compiled_without_prefetching(kernel):
    """A kernel compiled again, with a `prefetch_row` that does nothing."""
    from numba import njit

    @njit(inline="always")
    def nothing(table, row):
        return None

    options = {name: kernel.targetoptions[name] for name in ("nogil", "fastmath", "error_model")}
    original = kernel.py_func
    scope = {**original.__globals__, "prefetch_row": nothing}
    return njit(**options)(FunctionType(original.__code__, scope, original.__name__))
