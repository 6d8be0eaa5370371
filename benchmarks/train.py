"""Training speed on an Amazon-shaped set: ``python benchmarks/train.py [--quick]``; one JSON line a case.

Embedding 64 + 64, attention 80-40, MLP 200-80, Adam; samples per second of whole training steps, batch gathering included, as
the median over repeated stretches. ``share_of_peak`` counts the matrix products that the model's equations need (forward and
backward, no padding) against the fastest float32 matrix product measured on the same threads just before, be it torch's or the
engine's own; ``share_of_torch`` against torch's, by whose library peers multiply. Each model and case has a process of its own,
whose peak memory so far a line says; batches that do not fit the machine's memory are left out, with a line on stderr.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psutil
import yaml

from deep_interest.models.registry import MODELS, find_model, model_config
from deep_interest.process import prepare_process

if TYPE_CHECKING:
    from deep_interest.training.data import SampleSet
    from deep_interest.training.loop import Fit

prepare_process()  # before torch is imported, which the functions do
LIBRARIES = 4 << 30  # addresses that they reserve and do not use
COMMON = {"embedding_dim": 64, "attention_hidden": (80, 40), "hidden": (200, 80)}
PARAMETERS = Path(__file__).parents[1] / "conf/base/parameters/models.yml"
ROWS = [
    key
    for key, row in MODELS.items()
    if not (row.ablation or key.endswith(("mba", "mba_dice")) or row.closed_form)
]


def options_of(model: str) -> dict:
    """Of the row's model, as the project's tables have it."""
    block = yaml.safe_load(PARAMETERS.read_text())["models"][model]
    return {name: value for name, value in block.items() if name != "training"}


def make_fit(
    samples: "SampleSet",
    *,
    model: str,
    batch_size: int,
    common: dict | None = None,
    options: dict | None = None,
) -> "Fit":
    """A fit that is never run as a whole: its single steps are what is measured.

    Args:
        samples: the training set.
        model: key of the model.
        batch_size: samples per step.
        common: options of any model, besides the widths of this module.
        options: of this model; those of ``models.yml`` if left out.
    """
    import torch

    from deep_interest.training.loop import Fit
    from deep_interest.training.parameters import TrainingOptions

    torch.manual_seed(0)
    options = options_of(model) if options is None else options
    config = model_config(model, options, common=COMMON | (common or {}))
    net = find_model(model).load()(config, samples.store.schema).to(samples.labels.device)
    with TemporaryDirectory() as folder:
        return Fit(
            label=model, model=net, train=samples, validation=samples, options=TrainingOptions(batch_size=batch_size), seed=0,
            state_file=Path(folder) / "state.pt", fingerprint="",
        )  # fmt: skip


def measure(fit: "Fit", *, seconds: float, repeats: int) -> float:
    """Median samples per second over the stretches; three are enough where steps are long."""
    import torch

    size = fit.options.batch_size
    order = torch.randperm(len(fit.train)).split(size)[:-1]
    fit.model.train()
    begin, position, speeds = time.perf_counter(), 0, []
    while position < 5 and (not position or time.perf_counter() - begin < seconds):
        fit.train_step(order[position % len(order)])
        position += 1
    wait_for(fit.device)
    begin = time.perf_counter()
    while len(speeds) < repeats and (len(speeds) < 3 or time.perf_counter() - begin < 2 * repeats * seconds):
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            fit.train_step(order[position % len(order)])
            position, done = position + 1, done + size
        wait_for(fit.device)
        speeds.append(done / (time.perf_counter() - start))
    return statistics.median(speeds)


def wait_for(device) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def operations(samples: "SampleSet", *, model: str, common: dict | None = None) -> float:
    """Floating-point operations a sample in the matrix products of the plain writing, forward and backward."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    mean = samples.history_end.clamp(max=samples.max_len).double().mean().item()
    size = min(512, len(samples), int(5000 / max(mean, 1)))  # the plain writing needs much memory
    fit = make_fit(samples, model=model, batch_size=size, common=common)
    fit.model.double().train()
    batch = samples.batch(torch.arange(size), negatives=fit.negative_fields)
    with FlopCounterMode(display=False) as counter:
        output = fit.model(batch)
        loss = output.logits.sum()
        (loss if output.auxiliary_loss is None else loss + output.auxiliary_loss).backward()
    return counter.get_total_flops() / size


@cache
def torch_peak(threads: int, device: str) -> float:
    """The most operations a second of torch's float32 matrix product, over a few shapes."""
    import torch

    best = 0.0
    for n in (512, 1024, 2048):
        a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
        out = a @ b
        for _ in range(10):
            start = time.perf_counter()
            torch.mm(a, b, out=out)
            wait_for(out.device)
            best = max(best, 2 * n**3 / (time.perf_counter() - start))
    return best


@cache
def tile_peak(threads: int) -> float:
    """The same of the engine's own product on a CPU, over a few shapes that stay in a core's cache."""
    import numpy as np

    from deep_interest.ops.kernels.gemm import matmul_add, pack

    def multiply(out: np.ndarray) -> None:
        for _ in range(times):
            matmul_add(a, right, out)

    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for rows, inner, columns in ((96, 128, 80), (480, 256, 128), (96, 256, 208)):
            a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
            right, outs = pack(b), [np.zeros((rows, columns), np.float32) for _ in range(threads)]
            needed = 2 * rows * inner * columns
            times = 10**9 // needed
            for _ in range(10):
                start = time.perf_counter()
                list(pool.map(multiply, outs))
                best = max(best, threads * times * needed / (time.perf_counter() - start))
    return best


def keep_within_memory() -> None:
    """Let a batch that is too large for the machine end this process, not others."""
    free, most = psutil.virtual_memory().available + LIBRARIES, resource.getrlimit(resource.RLIMIT_AS)[1]
    free = free if most == resource.RLIM_INFINITY else min(free, most)
    resource.setrlimit(resource.RLIMIT_AS, (free, most))


def main() -> None:
    """Measure every case and print it."""
    import torch
    from workload import amazon_shaped

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the main models and case only")
    parser.add_argument("--models", nargs="+", default=ROWS, choices=ROWS)
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[32, 128, 1024, 8192])
    parser.add_argument("--cases", nargs="+", default=["jagged", "full"])
    parser.add_argument("--embedding-dim", type=int, default=64)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    models, sizes, cases = arguments.models, arguments.batch_sizes, arguments.cases
    if arguments.quick:
        models, sizes, cases = ["din", "dien"], [128, 1024], ["jagged"]
    if len(models) * len(cases) > 1:
        given = ["--embedding-dim", str(arguments.embedding_dim), "--device", arguments.device]
        given += ["--threads", str(arguments.threads)] if arguments.threads else []
        for case, model in product(cases, models):
            command = [sys.executable, __file__, "--cases", case, "--models", model, *given]
            subprocess.run([*command, "--batch-sizes", *map(str, sizes)], check=True)
        return
    (case,), (model,), threads = cases, models, torch.get_num_threads()
    samples = amazon_shaped(200_000, full=case == "full", device=arguments.device)
    common = {"embedding_dim": arguments.embedding_dim}
    needed = operations(samples, model=model, common=common)
    reached = torch_peak(threads, arguments.device)
    peak = max(reached, tile_peak(threads)) if arguments.device == "cpu" else reached
    if arguments.device == "cpu":
        keep_within_memory()
    for size in sizes:
        fit = make_fit(samples, model=model, batch_size=size, common=common)
        try:
            speed = measure(fit, seconds=1, repeats=5)
        except (MemoryError, RuntimeError) as error:
            if "memory" not in str(error).lower():
                raise
            print(f"{model}, {case}, batch {size}: {error}", file=sys.stderr)
            return
        line = {
            "bench": "train", "case": case, "model": model, "batch_size": size, "samples_per_s": round(speed),
            "share_of_peak": round(speed * needed / peak, 3), "share_of_torch": round(speed * needed / reached, 3),
            "peak_gflops": round(peak / 1e9), "torch_gflops": round(reached / 1e9),
            "embedding_dim": arguments.embedding_dim, "threads": threads, "device": arguments.device,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }  # fmt: skip
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
