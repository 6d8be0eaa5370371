"""The process group of a run: sums over all ranks, and decisions that all ranks must take alike."""

import gc
import os
import socket
import threading
import time
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from deep_interest.distributed.meeting import store_of_attempt
from deep_interest.distributed.torchrec_parts import import_torchrec
from deep_interest.errors import InputError

T = TypeVar("T")

_TIMEOUT = timedelta(
    days=7
)  # rank 0 may read raw files for hours; a rank that ends closes its connections at once
_PARENT_INTERVAL = 0.5  # seconds
_STORE_SECONDS = 10.0  # for the store of the launcher to answer; it is there before the ranks are


def join_ranks() -> None:
    """Join the process group of the run, unless this process has joined already.

    TorchRec is imported first: its import defines functions that keep the process group of that moment as a default argument, and a group
    that something keeps does not end its threads in `leave_ranks`.

    Raises:
        InputError: ``torchrun`` has ended.
    """
    if dist.is_initialized():
        return
    require_launcher()
    import_torchrec()
    store, rank, size = next(dist.rendezvous("env://"))
    own = store_of_attempt(store, rank, size)
    dist.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=_TIMEOUT)


def require_launcher(seconds: float = _STORE_SECONDS) -> None:
    """Check that ``torchrun`` is still there: a rank whose launcher was killed while it started would wait for the others for 30 minutes.

    Args:
        seconds: how long to try.

    Raises:
        InputError: nothing answers at the address of the launcher's store.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return  # started by another launcher, which may have no store yet
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=_STORE_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise InputError(
                    f"torchrun: no answer at {host}:{port}, where it keeps what its ranks share ({error}); it has ended, start the run again"
                ) from error
        time.sleep(_PARENT_INTERVAL)


def leave_ranks() -> None:
    """Leave the process group, and wait for its threads: one that frees a tensor while Python ends aborts the process."""
    if dist.is_initialized():
        gc.collect()  # models with sharded tables refer to the group
        dist.destroy_process_group()


def end_with_launcher() -> None:
    """End this process when ``torchrun`` ends, so that a killed launcher leaves no process that holds locks."""
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(_PARENT_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def rank() -> int:
    """Return the index of this process."""
    return dist.get_rank()


def size() -> int:
    """Return the number of processes."""
    return dist.get_world_size()


def sum_over_ranks(tensor: Tensor) -> Tensor:
    """Replace a tensor by its sum over all ranks, which is the same on all of them, and return it."""
    dist.all_reduce(tensor)
    return tensor


def all_agree(condition: bool) -> bool:
    """Return whether a condition holds on all ranks."""
    return int(sum_over_ranks(torch.tensor(int(condition)))) == size()


def from_rank_0(value: T) -> T:
    """Return the value that rank 0 has passed: a plain value, such as a string or None."""
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def gather_parts(part: Tensor, sizes: list[int]) -> Tensor:
    """Return the concatenation of the vectors of all ranks, on all of them.

    Args:
        part: ``(n_r,)`` vector of this rank.
        sizes: n_r of all ranks.
    """
    padded = part.new_zeros(max(sizes))
    padded[: len(part)] = part
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([each[:count] for each, count in zip(parts, sizes, strict=True)])


def bounds_of(count: int, index: int, parts: int) -> tuple[int, int]:
    """Return first and last + 1 of one of ``parts`` contiguous parts of ``count`` elements, whose sizes differ by at most 1."""
    return count * index // parts, count * (index + 1) // parts
