"""Compiled loops over arrays, and the threads that share them."""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from numba import njit
from torch import Tensor

ENOUGH = 1 << 17  # numbers to go through for which waking another thread pays

compiled = njit(fastmath={"contract", "reassoc", "nsz", "arcp"}, nogil=True, error_model="numpy", cache=True)


def fits(*tensors: Tensor) -> bool:
    """Whether the compiled writing takes these tensors."""
    return all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors as arrays on the same memory, rows side by side."""
    return [(tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy() for tensor in tensors]


def run(kernel, *arguments, work: int) -> None:
    """Run ``kernel(*arguments, part, parts)`` for every part, one a thread.

    Args:
        kernel: a compiled function whose last two arguments say which share of the rows it takes.
        arguments: the kernel's, without the last two.
        work: numbers that the kernel goes through; with few of them one thread does it all.
    """
    parts = torch.get_num_threads() if work >= ENOUGH else 1
    others: list[Future] = [_pool().submit(kernel, *arguments, part, parts) for part in range(1, parts)]
    kernel(*arguments, 0, parts)
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="ops")


@njit(inline="always")
def share(rows, part, parts):
    """The rows of one part: first and last + 1."""
    return rows * part // parts, rows * (part + 1) // parts
