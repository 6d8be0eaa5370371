"""A store of the processes of one attempt: ``torchrun`` keeps its store when it restarts them, with the keys of the killed ones.

See https://github.com/pytorch/pytorch/issues/135712: without a prefix that only the present processes know, a process may connect to the
address of one that was killed, and counters of restarts differ between machines.
"""

import hashlib
import json
import time
import uuid

from torch.distributed import PrefixStore, Store

_INTERVAL = 0.02  # seconds


def store_of_attempt(store: Store, rank: int, size: int, *, timeout: float = 1800.0) -> Store:
    """Return a part of a store that only the present processes use.

    Every process writes a random name; rank 0 offers a prefix made of all names, until all others have found their own name in
    it and have accepted it.

    Args:
        store: store that earlier processes may have used.
        rank: index of this process.
        size: number of processes.
        timeout: time to wait for the others, in seconds.

    Raises:
        TimeoutError: the other processes have not come.
    """
    name = uuid.uuid4().hex
    store.set(f"name/{rank}", name)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        prefix = _offer(store, name, size) if rank == 0 else _accept(store, name, rank)
        if prefix:
            return PrefixStore(prefix, store)
        time.sleep(_INTERVAL)
    raise TimeoutError(f"rank {rank}: the other ranks of {size} have not started within {timeout:.0f} s")


def _offer(store: Store, name: str, size: int) -> str | None:
    """Offer a prefix to the other processes; return it once all of them have accepted it."""
    names = [name, *(_read(store, f"name/{rank}") for rank in range(1, size))]
    if "" in names:
        return None
    store.set("offer", json.dumps(names))
    prefix = _prefix(names)
    if any(_read(store, f"accepted/{rank}") != prefix for rank in range(1, size)):
        return None
    store.set(f"begin/{prefix}", "1")
    return prefix


def _accept(store: Store, name: str, rank: int) -> str | None:
    """Accept an offer that has the name of this process; return it once rank 0 has confirmed it."""
    names = json.loads(_read(store, "offer") or "[]")
    if rank >= len(names) or names[rank] != name:
        return None
    prefix = _prefix(names)
    store.set(f"accepted/{rank}", prefix)
    return prefix if _read(store, f"begin/{prefix}") else None


def _prefix(names: list[str]) -> str:
    return hashlib.blake2b("".join(names).encode(), digest_size=8).hexdigest()


def _read(store: Store, key: str) -> str:
    """Return the value of a key, empty if it is not set."""
    return store.get(key).decode() if store.check([key]) else ""
