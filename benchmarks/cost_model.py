"""The coefficients of ``deep-interest plan``: what the stages need on this machine, written to ``planning/measurements.json``.

    python benchmarks/cost_model.py [--sizes 1000000 4000000] [--models din dien] [--engines numpy duckdb spark] [--out FILE]

``data``: one process per step, engine and size on generated logs (those of ``data_path.py``: 20 behaviours per user, 50 per item): CSV
files to canonical tables, in memory and on disk within 1 GB, and canonical tables to log, features and samples (``next_item``). Each prints one
JSON line with ``seconds`` (imports not counted), ``peak_rss_mb`` (without memory-mapped files for engines; the memory of Spark's JVM is its setting), ``disk_mb`` and
``stored_mb``, what was on disk in between. ``models``: training steps and predictions of each model on one core, batches of 512, with two
widths of embeddings and two lengths of histories. Lines are fitted to the sizes by least squares with coefficients of at least 0, in
proportion to the value measured. ``--parts data`` or ``--parts models`` measures one and keeps the other from the file.
"""

import argparse
import contextlib
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from data_path import Tables, generate, size_of
from machine import this_commit, this_machine
from scipy.optimize import nnls

PACKAGE = Path(__file__).parents[1] / "src/deep_interest/planning"
MODELS = (
    "lr", "asvd", "fm", "base", "wide_deep", "pnn", "deepfm", "lstm", "din", "din_dice", "din_softmax", "gru_attention", "gru_augru", "dien",
    "bst", "dmin", "din_light", "dien_light", "sim_hard", "sim_soft", "eta", "sdim", "twin", "stca",
)  # fmt: skip
DIMS, LENGTHS, BATCH = (16, 64), (10, 50), 512
MEBI = 2**20
MADE, INGESTS = "cost_model", ("memory", "disk")
JVM_MB = 3072  # of Spark's driver, a process of its own


def main() -> None:
    """Measure and write the coefficients, or measure the case that ``--measure`` names in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000_000, 4_000_000], help="behaviours")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--engines", nargs="+", default=["numpy", "duckdb", "spark"])
    parser.add_argument("--parts", nargs="+", choices=["data", "models"], default=["data", "models"])
    parser.add_argument("--seconds", type=float, default=0.3, help="of each stretch of training")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "deep_interest_bench")
    parser.add_argument("--out", type=Path, default=PACKAGE / "measurements.json")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.memory_limit, arguments.rows_per_partition = "1GB", 1_000_000  # on disk
    arguments.threads = 2
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments)), flush=True)
        return
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    found |= {"machine": this_machine(), "commit": this_commit()}
    if "data" in arguments.parts:
        found |= data_coefficients(arguments)
    if "models" in arguments.parts:
        found |= model_coefficients(arguments, found.get("models", {}))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")


def data_coefficients(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the data path at every size and fit lines."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for size in arguments.sizes:
            pool.apply(generate_files, (folder_of(arguments, size), size))
    cases = [f"ingest_{way}" for way in INGESTS] + list(
        arguments.engines
    )  # samples read what ingest has written
    lines = {
        (case, size): in_process(f"{case}:{size}", arguments) for size in arguments.sizes for case in cases
    }
    for size in arguments.sizes:
        shutil.rmtree(folder_of(arguments, size) / MADE)
    of = {case: [lines[case, size] for size in arguments.sizes] for case in cases}
    ingest, samples = of["ingest_memory"][-1], of["numpy"][-1]
    return {
        "ingest": {way: step_of(of[f"ingest_{way}"], [line["behaviors"] for line in of[f"ingest_{way}"]]) for way in INGESTS},
        "samples": {
            engine: step_of(of[engine], [line["behaviors"] + line["samples"] for line in of[engine]])
            for engine in arguments.engines
        },
        "canonical_bytes": round(ingest["disk_mb"] * MEBI / ingest["behaviors"], 2),
        "samples_bytes": round(samples["samples_mb"] * MEBI / samples["samples"], 2),
    }  # fmt: skip


def step_of(lines: list[dict[str, Any]], rows: list[int]) -> dict[str, Any]:
    """Fit the lines of a step of the data path."""
    memory = [(line["peak_rss_mb"] + line.get("jvm_mb", 0)) * MEBI for line in lines]
    return {
        "seconds": fit_line(rows, [line["seconds"] for line in lines]),
        "memory": fit_line(rows, memory),
        "stored": round(lines[-1]["stored_mb"] * MEBI / rows[-1], 2),
        "cores": lines[-1]["cores"],
    }


def fit_line(rows: list[int], values: list[float]) -> dict[str, float]:
    """Return the line of least squares in proportion to the values, with coefficients of at least 0."""
    (fixed, per_row) = relative_nnls([[1.0, float(row)] for row in rows], values)
    return {"fixed": fixed, "per_row": per_row}


def relative_nnls(factors: list[list[float]], values: list[float]) -> list[float]:
    """Return the coefficients of at least 0 that minimise the squared relative errors."""
    matrix = np.array(factors) / np.array(values)[:, None]
    scale = matrix.max(axis=0)
    found = nnls(matrix / scale, np.ones(len(values)))[0] / scale
    return [float(f"{number:.4g}") for number in found]


def in_process(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure a case in a process of its own and print its line."""
    command = [sys.executable, __file__, "--measure", case, "--work", str(arguments.work)]
    command += ["--seconds", str(arguments.seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    line = done.stdout.splitlines()[-1]
    print(line, flush=True)
    return json.loads(line)


def measure(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure ``STEP:SIZE`` or ``model:KEY`` in this process."""
    step, value = case.split(":")
    if step == "model":
        return {"bench": "cost_model", "case": "model", "model": value, **speeds_of(value, arguments.seconds)}
    folder = folder_of(arguments, int(value))
    run = run_ingest if step.startswith("ingest_") else run_samples
    disk = PeakOfDisk(folder / MADE)
    peak = PeakOfMemory(files=run is run_ingest or step == "numpy")
    with disk, peak:
        line = run(step.removeprefix("ingest_"), folder, arguments)
    rows = pq.read_metadata(folder / "behaviors.parquet").num_rows
    stored = max(0, disk.peak - disk.before - round(line["disk_mb"] * MEBI)) / MEBI
    return {
        "bench": "cost_model", "case": step, "behaviors": rows, "peak_rss_mb": round(peak.peak / MEBI), "stored_mb": round(stored, 1), **line,
    }  # fmt: skip


class Watch(threading.Thread):
    """Calls `look` ten times a second while its context is open, and keeps the largest number."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._end = 0, threading.Event()

    def look(self) -> int:
        """Return the number to watch."""
        raise NotImplementedError

    def run(self) -> None:
        while not self._end.wait(0.1):
            self.peak = max(self.peak, self.look())

    def __enter__(self) -> "Watch":
        self.peak = self.before = self.look()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()


class PeakOfDisk(Watch):
    """Bytes below a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def look(self) -> int:
        total = 0
        for file in self._folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                total += file.stat().st_size if file.is_file() else 0
        return total


class PeakOfMemory(Watch):
    """Memory of this process; without ``files``, memory-mapped files do not count."""

    def __init__(self, *, files: bool) -> None:
        super().__init__()
        self._files = files

    def look(self) -> int:
        found = psutil.Process().memory_info()
        return found.rss if self._files else found.rss - found.shared

    def __exit__(self, *of: object) -> None:
        super().__exit__(*of)
        if self._files:  # what was missed between two looks
            self.peak = max(self.peak, peak_bytes())


def peak_bytes() -> int:
    """Return the peak memory of this process in bytes; ``ru_maxrss`` would include that of the process that started it."""
    (line,) = (of for of in Path("/proc/self/status").read_text().splitlines() if of.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def folder_of(arguments: argparse.Namespace, size: int) -> Path:
    """Return the folder of the generated files; that of ``data_path.py``."""
    return arguments.work / f"data_path_{size}"


def generate_files(folder: Path, size: int) -> None:
    """Write the log as Parquet, and as CSV files as a user would have them."""
    generate(folder, size)
    for name in ("behaviors", "items"):
        if not (folder / f"{name}.csv").exists():
            pacsv.write_csv(pq.read_table(folder / f"{name}.parquet"), folder / f"{name}.csv")


def run_ingest(way: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """From CSV files to canonical tables on disk: in memory, or on disk within the limit."""
    from deep_interest.pipelines.ingest.nodes import make_ingest_behaviors
    from deep_interest.pipelines.parameters import DatasetParameters, IngestParameters

    files = {"behaviors": {"files": "behaviors.csv"}, "items": {"files": "items.csv"}}
    block = {
        "title": "Cost model",
        "protocol": {"name": "next_item"},
        "source": {"folder": str(folder), **files},
    }
    dataset = DatasetParameters.model_validate(block)
    made = folder / MADE / way
    made.mkdir(parents=True)
    tables = tables_of(made, "numpy" if way == "memory" else "duckdb", arguments)
    options = IngestParameters(
        memory_limit=None if way == "memory" else arguments.memory_limit,
        rows_per_partition=arguments.rows_per_partition,
        workspace=str(made),
    )
    begin = time.perf_counter()
    behaviors, items, _ = make_ingest_behaviors("log")(folder, dataset, options)
    tables._behaviors.save(behaviors)
    tables._items.save(items)
    seconds = time.perf_counter() - begin
    cores = 1 if way == "memory" else 2
    return {
        "seconds": round(seconds, 2),
        "disk_mb": round(disk_of(made, "behaviors.parquet", "items.parquet"), 2),
        "cores": cores,
    }


def tables_of(made: Path, engine: str, arguments: argparse.Namespace) -> "Tables":
    """Return the tables of an engine."""
    from deep_interest.datasets import EngineTable

    tables = Tables(made, arguments, on_engine=engine != "numpy")
    if engine == "spark":
        settings = {
            "spark.driver.memory": f"{JVM_MB}m",
            "spark.sql.shuffle.partitions": 8,
            "spark.local.dir": str(made / "spill"),
        }
        tables._behaviors = EngineTable(
            filepath=str(made / "behaviors.parquet"), rows_per_partition=arguments.rows_per_partition,
            connection={"backend": "pyspark", "master": "local[2]", "settings": settings},
        )  # fmt: skip
    return tables


def disk_of(made: Path, *names: str) -> float:
    """Return the megabytes of files and folders."""
    files = [made / name for name in names if (made / name).is_file()]
    return (size_of(made, names) + sum(file.stat().st_size for file in files)) / MEBI


def run_samples(engine: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """From canonical tables to log, features and samples on disk; the time of Spark's start counts."""
    import deep_interest.engines.path
    import deep_interest.pipelines.samples.nodes  # noqa: F401  # imports are not what is measured

    made = folder / MADE / ("memory" if engine == "numpy" else "disk")
    tables = tables_of(made, engine, arguments)
    begin = time.perf_counter()
    samples = tables.samples()
    line = {
        "samples": samples, "seconds": round(time.perf_counter() - begin, 2), "cores": 1 if engine == "numpy" else 2,
        "disk_mb": round(disk_of(made, "log", "features", "samples"), 2), "samples_mb": round(disk_of(made, "samples"), 2),
    }  # fmt: skip
    for name in ("log", "features", "samples"):
        shutil.rmtree(made / name)
    return line | ({"jvm_mb": JVM_MB} if engine == "spark" else {})


def model_coefficients(arguments: argparse.Namespace, known: dict[str, Any]) -> dict[str, Any]:
    """Measure the models and fit their speeds; memory of a process and of a batch come from DIN."""
    lines = {model: in_process(f"model:{model}", arguments) for model in arguments.models}
    models = dict(known)
    for model, line in lines.items():
        factors = [[1.0, width, length, width * length] for width, length, *_ in line["points"]]
        models[model] = {
            name: relative_nnls(factors, [point[position] for point in line["points"]])
            for name, position in (("train", 2), ("score", 3))
        }
    reference = lines.get("din") or next(iter(lines.values()))
    (small, *_, large) = reference["rss"]  # the largest batch comes last
    numbers = [
        BATCH * width * length for width, length, *_ in (reference["points"][0], reference["points"][-1])
    ]
    per_number = max(0.0, (large - small) / (numbers[1] - numbers[0]))
    return {
        "models": models, "process_bytes": round(small - per_number * numbers[0] - reference["data_bytes"]),
        "batch_bytes": round(per_number, 2),
    }  # fmt: skip


def speeds_of(model: str, seconds: float) -> dict[str, Any]:
    """Measure a model with each width and length: ``[width, length, seconds of training, seconds of scoring]`` per sample."""
    from deep_interest.process import prepare_process

    prepare_process()
    import torch
    from train import make_fit
    from train import measure as speed_of_training
    from workload import amazon_shaped

    from deep_interest.training.evaluation import predict

    torch.set_num_threads(1)
    samples = amazon_shaped(50_000, full=True)
    points, peaks = [], []
    for dim, length in product(DIMS, LENGTHS):
        fit = make_fit(
            replace(samples, max_len=length), model=model, batch_size=BATCH, common={"embedding_dim": dim}
        )
        trained = 1 / speed_of_training(fit, seconds=seconds, repeats=3)
        weights = (
            3 * 4 * sum(parameter.numel() for parameter in fit.model.parameters())
        )  # with Adam's moments
        peaks.append(psutil.Process().memory_info().rss - weights)  # the buffers of a step are kept
        part = first(fit.train, max(4096, min(len(samples), int(seconds / trained * 2))))
        predict(fit.model, first(part, 512), batch_size=4096)
        begin = time.perf_counter()
        predict(fit.model, part, batch_size=4096)
        points.append([2 * dim, length, trained, (time.perf_counter() - begin) / len(part)])
    arrays = [samples.store.offsets, *samples.store.history.values()]
    data = sum(array.element_size() * len(array) for array in arrays)
    return {"points": points, "rss": peaks, "data_bytes": data}


def first(samples, count: int):
    """Return the first samples."""
    columns = {name: getattr(samples, name)[:count] for name in ("user", "item", "history_end", "labels")}
    return replace(samples, **columns)


if __name__ == "__main__":
    main()
