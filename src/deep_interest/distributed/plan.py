"""TorchRec's plan of the shards: whether the tables fit into the memory of the ranks, and which rows each rank owns."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from deep_interest.distributed.environment import Ranks
from deep_interest.distributed.shards import Shard
from deep_interest.distributed.torchrec_parts import import_torchrec
from deep_interest.errors import InputError
from deep_interest.models.embeddings import Table

_RESERVED = 0.15  # part of the memory for everything but tables, TorchRec's default


def require_memory(tables: Mapping[str, Table], ranks: Ranks, *, copies: int) -> None:
    """Let TorchRec plan row-wise shards of all tables: they have to fit into memory, and to be divided as `Shard` does.

    Args:
        tables: tables by name, whose rows are not in memory yet.
        ranks: the ranks of this run.
        copies: number of values kept for each weight, with the moments of the optimiser.

    Raises:
        InputError: the tables do not fit into the memory of the machines.
    """
    torchrec = import_torchrec()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    topology = torchrec.Topology(
        world_size=ranks.size, local_world_size=ranks.local_size, compute_device="cpu",
        ddr_cap=memory // ranks.local_size // copies,
    )  # fmt: skip
    constraints = {
        _plain(name): torchrec.ParameterConstraints(sharding_types=["row_wise"]) for name in tables
    }
    planner = torchrec.EmbeddingShardingPlanner(
        topology=topology,
        constraints=constraints,
        storage_reservation=torchrec.FixedPercentageStorageReservation(_RESERVED),
    )
    try:
        plan = planner.plan(_collections(tables), [torchrec.EmbeddingCollectionSharder()])
    except torchrec.PlannerError as error:
        total = 4 * copies * sum(table.num_embeddings * table.embedding_dim for table in tables.values())
        raise InputError(
            f"training: the embedding tables and their moments take {total / 1e9:.1f} GB, which is more than {ranks.size} ranks have, "
            f"{ranks.local_size} of them on this machine of {memory / 1e9:.1f} GB; start more ranks on more machines, or lower "
            "embedding_dim or keep_top"
        ) from error
    _check(plan.plan, tables, ranks)


def _collections(tables: Mapping[str, Table]) -> nn.Module:
    """Return TorchRec's collections of the tables, one for each width, without memory."""
    torchrec = import_torchrec()
    configs: dict[int, list[Any]] = {}
    for name, table in tables.items():
        config = torchrec.EmbeddingConfig(
            name=_plain(name), embedding_dim=table.embedding_dim, num_embeddings=table.num_embeddings, feature_names=[_plain(name)],
        )  # fmt: skip
        configs.setdefault(table.embedding_dim, []).append(config)
    return nn.ModuleList(
        torchrec.EmbeddingCollection(tables=each, device=torch.device("meta")) for each in configs.values()
    )


def _check(plan: Mapping[str, Any], tables: Mapping[str, Table], ranks: Ranks) -> None:
    planned = {name: parameter for module in plan.values() for name, parameter in module.items()}
    for name, table in tables.items():
        begins = [shard.shard_offsets[0] for shard in planned[_plain(name)].sharding_spec.shards]
        ours = [Shard.of(table.num_embeddings, rank, ranks.size).begin for rank in range(ranks.size)]
        assert begins == ours, f"{name}: TorchRec's shards begin at rows {begins}, expected {ours}"


def _plain(name: str) -> str:
    return name.replace(".", "/")
