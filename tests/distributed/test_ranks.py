"""What ranks need to know without TorchRec: who they are, how they meet, and which rows they own."""

import itertools
import socket
import threading

import pytest
import torch
from torch import nn
from torch.distributed import HashStore

from deep_interest.distributed import environment, group, shards
from deep_interest.distributed.environment import Ranks, current_ranks, is_worker, require_torchrec
from deep_interest.distributed.meeting import store_of_attempt
from deep_interest.errors import InputError
from deep_interest.logs.schema import Field
from deep_interest.models.embeddings import Table, tables_with_rows


def test_a_process_of_torchrun_knows_its_rank(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert current_ranks() is None
    assert not is_worker()
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "none"),
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_WORLD_SIZE", "2"),
    ):
        monkeypatch.setenv(name, value)
    assert current_ranks() == Ranks(rank=3, size=4, local_size=2)
    assert is_worker()


def test_without_torchrec_there_is_one_error_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs TorchRec, which is not installed"):
        require_torchrec()


def meet(store, size):
    """Let some processes, here threads, meet; return what each of them reads under a key that it has written."""
    found = [None] * size

    def join(rank):
        own = store_of_attempt(store, rank, size, timeout=20)
        own.set(f"address/{rank}", f"new {rank}")
        found[rank] = [own.get(f"address/{other}").decode() for other in range(size)]

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("size", [1, 2, 5])
def test_restarted_ranks_never_see_what_killed_ranks_have_written(size):
    store = HashStore()
    for _ in range(3):
        assert meet(store, size) == [[f"new {rank}" for rank in range(size)]] * size


def test_a_rank_that_waits_in_vain_says_so():
    with pytest.raises(TimeoutError, match="rank 1: the other ranks of 2 have not started"):
        store_of_attempt(HashStore(), 1, 2, timeout=0.1)


def test_blocks_cover_a_table_as_torchrec_divides_it():
    for rows, size in ((10, 4), (3, 4), (8, 2), (1, 3), (100_003, 7)):
        blocks = [shards.Shard.of(rows, rank, size) for rank in range(size)]
        assert blocks[0].begin == 0
        assert blocks[-1].end == rows
        assert all(a.end == b.begin for a, b in itertools.pairwise(blocks))
        assert max(block.end - block.begin for block in blocks) == -(-rows // size)


def test_parts_of_a_batch_differ_by_one_sample_at_most():
    for count in (1, 2, 7, 64):
        parts = [group.bounds_of(count, rank, 3) for rank in range(3)]
        assert parts[0][0] == 0
        assert parts[-1][1] == count
        assert all(a[1] == b[0] for a, b in itertools.pairwise(parts))
        assert max(end - begin for begin, end in parts) - min(end - begin for begin, end in parts) <= 1


@pytest.mark.parametrize("rows", [1, 5, 16, 63, 64, 65, 130, 257])
@pytest.mark.parametrize("dim", [1, 3, 8])
@pytest.mark.parametrize("std", [0.0, 0.01])
def test_ranks_draw_the_rows_that_one_process_draws(monkeypatch, rows, dim, std):
    """Whatever the size of the chunks; what is drawn afterwards is the same as well."""
    monkeypatch.setattr(shards, "_CHUNK", 64)
    field, size = Field(name="item_id", size=rows), 3
    torch.manual_seed(7)
    whole = Table(field, dim, groups=("item",), std=std).weight
    after = nn.Linear(3, 2).weight
    parts = []
    monkeypatch.setattr(group, "size", lambda: size)
    for rank in range(size):
        monkeypatch.setattr(group, "rank", lambda rank=rank: rank)
        torch.manual_seed(7)
        with tables_with_rows(shards.initial_rows):
            table = Table(field, dim, groups=("item",), std=std)
        parts.append(table.weight)
        assert table.num_embeddings == rows
        assert torch.equal(nn.Linear(3, 2).weight, after)
    assert torch.equal(torch.cat(parts), whole)


@pytest.fixture
def store_port(monkeypatch):
    """A port of this machine, named as that of the launcher's store, at which nothing answers."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    for name, value in {
        "TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return port


def test_a_rank_whose_launcher_has_ended_does_not_wait_for_the_others(store_port):
    with pytest.raises(
        InputError, match=f"torchrun: no answer at localhost:{store_port}, .* start the run again"
    ):
        group.require_launcher(seconds=0.0)


def test_a_rank_finds_the_store_of_its_launcher(store_port):
    with socket.create_server(("localhost", store_port)):
        group.require_launcher(seconds=0.0)


def test_ranks_of_another_launcher_may_have_no_store_yet(store_port, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE")
    group.require_launcher(seconds=0.0)
