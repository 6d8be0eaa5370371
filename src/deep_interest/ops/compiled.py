"""Compiled loops over arrays, and the threads that share them."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numba import njit
from torch import Tensor

from deep_interest.ops import crew
from deep_interest.ops.scratch import empty

ENOUGH = 1 << 18  # numbers to go through for which waking another thread pays
MOST = 8  # parts of an operation


def stamp_of(folder: Path) -> str:
    """A digest of the sources in a folder."""
    code = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        code.update(file.name.encode() + file.read_bytes())
    return code.hexdigest()


_STAMP = stamp_of(Path(__file__).parent)


def compiled(function: Callable) -> Callable:
    """Compile a loop that Python calls; the result is kept beside its source, for the operations' sources as they are.

    An innermost loop that sums into one number writes to no array: the compiler makes two copies of such a loop that writes, one
    of them for arrays that lie side by side, and may order the sum in each as it likes.

    By itself numba would take a kept result as long as the function's own file is the same, whatever it calls.

    What it calls is `exact`, `uncounted` or njit's ``inline="always"``: the compiler makes a copy of a called loop for every caller, sees
    to each by itself, and a process then takes whichever copy it has met first. Copies that may order sums as they like
    round differently, and so would a process that compiles and one that finds everything kept.
    """
    return _kept(function, fastmath={"contract", "reassoc", "nsz", "arcp"})


def exact(function: Callable) -> Callable:
    """Compile a loop that others call, with its sums in the order as written: all its copies come out the same."""
    return _kept(function, fastmath=False)  # said, or numba takes the caller's


def uncounted(function: Callable) -> Callable:
    """As `exact`, for a loop that makes no array and returns none: it counts no references to those that it is given.

    Counting is an atomic operation for every row that a loop looks at, where the compiler cannot tell that it may leave it out.
    """
    return _kept(function, fastmath=False, _nrt=False)


def _kept(function: Callable, **options) -> Callable:
    dispatcher = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    dispatcher._cache._cache_file._source_stamp = _STAMP
    return dispatcher


_threads: int | None = None  # that share the compiled operations; torch's number if None


def fits(*tensors: Tensor) -> bool:
    """Whether the compiled writing takes these tensors."""
    found = [tensor.is_cpu and tensor.dtype == torch.float32 for tensor in tensors]
    return all(found)  # every operation asks: a list is faster than a generator


def arrays(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors as arrays on the same memory, rows side by side."""
    return [(tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy() for tensor in tensors]


def room_for(rows: int, width: int, like: Tensor) -> Tensor:
    """An empty ``(rows, width)`` of the kind of ``like``.

    The memory is a little more, so that batches of about the same size are given the same memory, step after step: each thread finds its
    part of it in its own cache, and need not fetch what another one wrote there.
    """
    step = 1 << max(0, rows.bit_length() - 3)
    return empty(like, -(-rows // step) * step, width)[:rows]


def parts_of(work: int) -> int:
    """How many parts an operation is done in: by its size alone, so that sums come out the same for any number of threads.

    Args:
        work: numbers that it goes through; about thirty multiplications of a matrix product are one.
    """
    return max(1, min(MOST, work // ENOUGH)) if ENOUGH else MOST


@contextmanager
def all_threads_to_compiled() -> Iterator[None]:
    """Within, the compiled operations share torch's threads, and torch's own operations have one.

    Waking both kinds of threads in turns costs more than torch's bring, where nearly all of the work is compiled.
    """
    global _threads  # noqa: PLW0603
    before = _threads, torch.get_num_threads()
    _threads = _threads or before[1]
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _threads = before[0]
        torch.set_num_threads(before[1])


def run(kernel, *arguments, work: int) -> None:
    """Run ``kernel(*arguments, part, parts)`` for every part; torch's number of threads share them.

    A thread begins with parts of its own, the same ones in every operation, whose rows are near it then; what is left it takes from the others.

    Args:
        kernel: a compiled function whose last two arguments say which share of the rows it takes.
        arguments: the kernel's, without the last two.
        work: numbers that the kernel goes through, see `parts_of`.
    """
    parts = parts_of(work)
    if parts == 1:
        kernel(*arguments, 0, 1)
        return
    threads = min(_threads or torch.get_num_threads(), parts)
    left = dict.fromkeys(range(parts), True)

    def take(number: int) -> None:
        own = parts * number // threads
        for part in (*range(own, parts), *range(own)):
            if left.pop(part, False):
                kernel(*arguments, part, parts)

    crew.share(take, threads - 1)


@njit(inline="always")
def share(rows, part, parts):
    """The rows of one part: first and last + 1."""
    return rows * part // parts, rows * (part + 1) // parts
