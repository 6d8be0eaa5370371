"""Training on several ranks: ``python benchmarks/cluster.py [--quick]``; one JSON line a case.

- ``speed``: samples per second of training steps on an Amazon-shaped set (`workload`), in one process and on one and two ranks, with one
  thread each; ``ratio`` to the process, and bytes that the ranks send per sample.
- ``torchrec``: a plain DIN with TorchRec's `DistributedModelParallel`, row-wise shards and its fused optimisers, on the same samples.
- ``memory``: peak memory of a rank that trains a DIN with a large item table with Adam, before and after its table is built.

Cases that are compared alternate: each is run ``--repeats`` times, in turn, and a line has the medians. Needs the extra ``cluster``.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
WARM_UP = 8  # steps
SAMPLES = 200_000


def ours(
    samples: Any, *, batch_size: int, optimizer: str, dim: int, model: str = "din"
) -> tuple[Callable, Callable[[], int]]:
    """Return the training step of a model of the project, on the ranks or in one process, and the bytes that this rank has sent."""
    import torch
    from train import COMMON, make_fit

    from deep_interest.distributed import group
    from deep_interest.distributed.environment import current_ranks
    from deep_interest.distributed.fit import RankFit, share_tables
    from deep_interest.distributed.shards import initial_rows
    from deep_interest.models.embeddings import tables_with_rows
    from deep_interest.models.registry import build_model, model_config
    from deep_interest.training.parameters import TrainingOptions

    if current_ranks() is None:
        fit = make_fit(samples, model=model, batch_size=batch_size, common={"embedding_dim": dim})
        return fit.train_step, lambda: 0
    torch.manual_seed(0)
    with tables_with_rows(initial_rows):
        config = model_config(model, {}, common=COMMON | {"embedding_dim": dim})
        network = build_model(model, config, samples.store.schema)
    exchange = share_tables(network)
    options = TrainingOptions(batch_size=batch_size, optimizer=optimizer)
    fit = RankFit(
        label=model, model=network, train=samples, validation=samples, options=options, seed=0, state_file=Path("unused"), fingerprint="",
        exchange=exchange, checkpoint_seconds=1e9,
    )  # fmt: skip
    fit._last_save = time.monotonic()
    fit.model.train()
    reduced = 4 * len(fit.optimizer.network.values)
    steps = [0]

    def step(rows):
        steps[0] += 1
        return fit.train_step(rows)

    ring = 2 * (group.size() - 1) / group.size()  # parts of the gradient that a rank sends in an all-reduce
    return step, lambda: int(exchange.bytes_sent + steps[0] * ring * reduced)


def torchrec_din(
    samples: Any, *, batch_size: int, optimizer: str, dim: int
) -> tuple[Callable, Callable[[], int]]:
    """Return the training step of a plain DIN with TorchRec's sharded tables and fused optimiser."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from plain_din import PlainDIN
    from torch import nn
    from torchrec import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
    from torchrec.distributed.embedding import EmbeddingCollectionSharder
    from torchrec.distributed.model_parallel import DistributedModelParallel
    from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
    from workload import CATEGORIES, ITEMS

    class DIN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            names = {"item": ITEMS + 1, "category": CATEGORIES + 1}
            self.tables = EmbeddingCollection(
                device=torch.device("meta"),
                tables=[
                    EmbeddingConfig(
                        name=name, embedding_dim=dim, num_embeddings=size, feature_names=[name, f"history_{name}"],
                        init_fn=lambda weight: nn.init.normal_(weight, std=0.01),
                    )
                    for name, size in names.items()
                ],
            )  # fmt: skip
            self.net = PlainDIN(2, 2, dim)
            del self.net.item, self.net.category

        def forward(self, features: KeyedJaggedTensor, owner: torch.Tensor) -> torch.Tensor:
            found = self.tables(features)
            history, candidate = (
                torch.cat([found[f"{prefix}{name}"].values() for name in ("item", "category")], 1)
                for prefix in ("history_", "")
            )
            return self.net.dense(history, candidate, owner)

    size, rank = dist.get_world_size(), dist.get_rank()
    planner = EmbeddingShardingPlanner(
        topology=Topology(world_size=size, local_world_size=size, compute_device="cpu"),
        constraints={
            name: ParameterConstraints(sharding_types=["row_wise"]) for name in ("item", "category")
        },
    )
    kind = {"sgd": EmbOptimType.EXACT_SGD, "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD}[optimizer]
    sharder = EmbeddingCollectionSharder(fused_params={"optimizer": kind, "learning_rate": 0.01})
    torch.manual_seed(0)
    model = DIN()
    plan = planner.collective_plan(model, [sharder], dist.group.WORLD)
    model = DistributedModelParallel(model, device=torch.device("cpu"), plan=plan, sharders=[sharder])
    network = [parameter for name, parameter in model.named_parameters() if "tables" not in name]
    stepper = torch.optim.Adam(network, lr=0.001, fused=True)
    model.train()
    keys = ["item", "history_item", "category", "history_category"]

    def step(rows):
        begin, end = len(rows) * rank // size, len(rows) * (rank + 1) // size
        batch = samples.batch(rows[begin:end])
        owner = batch.histories.segments
        if batch.owner is not None:
            raise ValueError("samples that share a history are not part of this benchmark")
        values = [
            batch.candidate["item_id"],
            batch.history["item_id"],
            batch.candidate["category"],
            batch.history["category"],
        ]
        ones = torch.ones(batch.size, dtype=torch.int32)
        lengths = batch.histories.lengths.int()
        features = KeyedJaggedTensor(
            keys, torch.cat(values), lengths=torch.cat([ones, lengths, ones, lengths])
        )
        loss = F.binary_cross_entropy_with_logits(model(features, owner), batch.labels)
        stepper.zero_grad()
        loss.backward()
        stepper.step()
        return loss.detach(), None

    return step, lambda: 0


def measure(case: dict) -> list[dict]:
    """Train each shape for some seconds, and return the speed and what the ranks have sent; the same number of steps on all ranks."""
    import torch
    from workload import amazon_shaped

    from deep_interest.distributed.environment import current_ranks

    torch.set_num_threads(1)
    if current_ranks() is not None:
        from deep_interest.distributed.group import join_ranks

        join_ranks()
    return [
        measure_shape(case, shape, amazon_shaped(SAMPLES, full=shape["history"] == "full"))
        for shape in case["shapes"]
    ]


def measure_shape(case: dict, shape: dict, samples: Any) -> dict:
    """Train one shape for some seconds."""
    import torch
    import torch.distributed as dist

    options = {"batch_size": shape["batch_size"], "optimizer": case["optimizer"], "dim": shape["dim"]}
    if case["system"] == "torchrec":
        step, sent = torchrec_din(samples, **options)
    else:
        step, sent = ours(samples, model=shape["model"], **options)
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(SAMPLES, generator=generator).split(shape["batch_size"])[:-1]
    for position in range(WARM_UP):
        step(order[position % len(order)])
    begin, before, done = time.perf_counter(), sent(), 0
    while True:
        for _ in range(4):
            step(order[(WARM_UP + done) % len(order)])
            done += 1
        elapsed = torch.tensor(time.perf_counter() - begin)
        if case["ranks"]:
            dist.broadcast(elapsed, src=0)
        if elapsed > case["seconds"]:
            break
    total = torch.tensor(float(sent() - before))
    if case["ranks"]:
        dist.all_reduce(total)
    trained = done * shape["batch_size"]
    return {"samples_per_s": trained / float(elapsed), "bytes_per_sample": float(total) / trained}


def peak_memory(case: dict) -> dict:
    """Train a few steps with a large item table, and return the peak memory of this rank in MB."""
    import numpy as np
    import torch
    import torch.distributed as dist
    from workload import amazon_shaped

    from deep_interest.distributed.environment import current_ranks
    from deep_interest.distributed.group import join_ranks

    torch.set_num_threads(1)
    if current_ranks() is not None:
        join_ranks()
    samples = amazon_shaped(20_000)
    field = samples.store.schema.item[0].model_copy(update={"size": case["rows"]})
    schema = samples.store.schema.model_copy(
        update={group: (field, *getattr(samples.store.schema, group)[1:]) for group in ("item", "behavior")}
    )
    vars(samples.store)["schema"] = schema
    spread = case["rows"] // (int(samples.store.history["item_id"].max()) + 1)
    for codes in (samples.store.items["item_id"], samples.store.history["item_id"]):
        codes.mul_(spread)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    step, _ = ours(samples, batch_size=512, optimizer="adam", dim=case["dim"])
    for rows in torch.arange(20_000).split(512)[:10]:
        step(rows)
    peak = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])
    if current_ranks() is not None:
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    return {"before_mb": before, "peak_rss_mb": float(np.round(peak.item()))}


def leave() -> None:
    """End this rank once all of them are done, without Python's finalisation, in which a thread of Gloo may abort the process."""
    import torch.distributed as dist

    dist.barrier()
    os._exit(0)


def run(case: dict) -> Any:
    """Run a case in processes of its own."""
    variables = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "benchmarks")]),
    }
    launcher = [sys.executable]
    if case["ranks"]:
        launcher += [
            "-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--nnodes=1", f"--nproc-per-node={case['ranks']}",
        ]  # fmt: skip
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        done = subprocess.run(
            [*launcher, str(Path(__file__)), "--case", json.dumps(case), "--out", str(out)], env=variables, check=False, capture_output=True,
            text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(out.read_text())


def speed_cases(arguments: argparse.Namespace) -> None:
    """Print the speed of every system, alternating; the ratios are those to one process and to one rank, with one thread each."""
    shapes = [
        {"model": model, "batch_size": batch_size, "history": history, "dim": dim}
        for model, batch_size, history, dim in (
            ("din", 512, "amazon", 64), ("din", 2048, "amazon", 64), ("din", 8192, "amazon", 64), ("din", 512, "full", 64),
            ("din", 2048, "amazon", 16), ("dien", 2048, "amazon", 64), ("dien", 8192, "amazon", 64), ("dien", 512, "full", 64),
        )[1 if arguments.quick else 0 : 3 if arguments.quick else None]
        if model in arguments.models
    ]  # fmt: skip
    cases = {
        "one process": {"system": "ours", "ranks": 0, "optimizer": "adam"},
        "1 rank": {"system": "ours", "ranks": 1, "optimizer": "adam"},
        "2 ranks": {"system": "ours", "ranks": 2, "optimizer": "adam"},
        "2 ranks, SGD": {"system": "ours", "ranks": 2, "optimizer": "sgd"},
        "TorchRec, 1 rank, row-wise Adagrad": {"system": "torchrec", "ranks": 1, "optimizer": "rowwise_adagrad"},
        "TorchRec, 2 ranks, row-wise Adagrad": {"system": "torchrec", "ranks": 2, "optimizer": "rowwise_adagrad"},
        "TorchRec, 2 ranks, SGD": {"system": "torchrec", "ranks": 2, "optimizer": "sgd"},
    }  # fmt: skip
    if arguments.without_torchrec:
        cases = {name: case for name, case in cases.items() if case["system"] == "ours"}
    found: dict[tuple[str, int], list[dict]] = {}
    for _ in range(arguments.repeats):
        for name, case in cases.items():
            own = [
                (number, shape)
                for number, shape in enumerate(shapes)
                if case["system"] == "ours" or shape["model"] == "din"
            ]
            if not own:
                continue
            common = {"kind": "speed", "seconds": arguments.seconds, "shapes": [shape for _, shape in own]}
            for (number, _), result in zip(own, run(common | case), strict=True):
                found.setdefault((name, number), []).append(result)
    speeds = {key: statistics.median(each["samples_per_s"] for each in runs) for key, runs in found.items()}
    for (name, number), runs in sorted(found.items(), key=lambda item: item[0][1]):
        speed = speeds[name, number]
        print_line(
            case=name, **shapes[number], samples_per_s=round(speed), ratio=round(speed / speeds["one process", number], 2),
            ratio_to_1_rank=round(speed / speeds["1 rank", number], 2),
            bytes_per_sample=round(statistics.median(each["bytes_per_sample"] for each in runs)),
            runs=[round(each["samples_per_s"]) for each in runs],
        )  # fmt: skip


def memory_cases(arguments: argparse.Namespace) -> None:
    """Print the peak memory of a rank for 0 (one process), 1, 2 and 4 ranks."""
    rows, dim = (2_000_000, 32) if arguments.quick else (8_000_000, 32)
    for ranks in (0, 1, 2, 4):
        found = run({"kind": "memory", "ranks": ranks, "rows": rows, "dim": dim})
        print_line(
            case="memory", ranks=ranks, rows=rows, embedding_dim=dim, table_and_moments_mb=round(rows * dim * 12 / 2**20),
            before_mb=round(found["before_mb"]), peak_rss_mb=round(found["peak_rss_mb"]),
        )  # fmt: skip


def print_line(**values: Any) -> None:
    print(json.dumps({"bench": "cluster", **values}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--only", choices=["speed", "memory"])
    parser.add_argument("--models", nargs="+", choices=["din", "dien"], default=["din", "dien"])
    parser.add_argument("--without-torchrec", action="store_true", help="only this project's training")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        case = json.loads(arguments.case)
        result = measure(case) if case["kind"] == "speed" else peak_memory(case)
        if os.environ.get("RANK", "0") == "0":
            Path(arguments.out).write_text(json.dumps(result))
        if case["ranks"]:
            leave()
        return
    if arguments.only != "memory":
        speed_cases(arguments)
    if arguments.only != "speed":
        memory_cases(arguments)


if __name__ == "__main__":
    main()
