"""Time, memory and disk of the data path from raw files to samples: NumPy in memory, and DuckDB within a limit.

    python benchmarks/data_path.py [--behaviors 10000000] [--memory-limit 2GB] [--repeats 1] [--paths numpy duckdb] [--work DIR]

Behaviours are generated once, streamed to Parquet, with a fixed seed: 20 per user on average, by user and time, items with a
long tail. Each measurement is a process of its own, the paths alternate, and each prints one JSON line: ``ingest_seconds`` from the
Parquet files to canonical tables on disk, ``seconds`` on to log, features and samples on disk, imports not counted; ``peak_rss_mb`` of
the process, memory-mapped files included; ``output_mb`` of canonical behaviours, log, features and samples; ``sha256`` of the sorted
samples with ``--hashes``.
"""

import argparse
import hashlib
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.io.atomic import atomic_path

BEHAVIORS_PER_USER = 20
BEHAVIORS_PER_ITEM = 50
BLOCK = 1_000_000  # users per block
OUTPUTS = ("behaviors.parquet", "log", "features", "samples")


def main() -> None:
    """Generate what is missing and measure, or measure the path that ``--measure`` names in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200,000 behaviours")
    parser.add_argument("--behaviors", type=int, default=10_000_000)
    parser.add_argument("--memory-limit", default="2GB", help="of DuckDB")
    parser.add_argument("--rows-per-partition", type=int, default=4_000_000)
    parser.add_argument("--threads", type=int, default=2, help="of DuckDB")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--paths", nargs="+", choices=["numpy", "duckdb"], default=["numpy", "duckdb"])
    parser.add_argument("--hashes", action="store_true", help="hash the sorted samples, which takes memory")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "deep_interest_bench")
    parser.add_argument("--measure", choices=["numpy", "duckdb"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    size = 200_000 if arguments.quick else arguments.behaviors
    folder = arguments.work / f"data_path_{size}"
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, folder, arguments)), flush=True)
        return
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(generate, (folder, size))
    for _ in range(arguments.repeats):
        for path in arguments.paths:
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--measure", path], check=True)


def generate(folder: Path, size: int) -> None:
    """Write ``behaviors.parquet`` and ``items.parquet`` unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    items = max(1000, size // BEHAVIORS_PER_ITEM)
    if not (folder / "items.parquet").exists():
        categories = np.random.default_rng(0).integers(1, 500, items)
        pd.DataFrame({"item": np.arange(1, items + 1), "category": categories}).to_parquet(
            folder / "items.parquet"
        )
    if (folder / "behaviors.parquet").exists():
        return
    schema = pa.schema([("user", pa.int64()), ("item", pa.int64()), ("time", pa.int64())])
    with atomic_path(folder / "behaviors.parquet") as path, pq.ParquetWriter(path, schema) as writer:
        users, written = 0, 0
        while written < size:
            block = behaviors_of(users, min(BLOCK, 1 + (size - written) // BEHAVIORS_PER_USER), items)
            writer.write_table(block.slice(0, size - written))
            users, written = users + BLOCK, written + len(block)


def behaviors_of(first_user: int, users: int, items: int) -> pa.Table:
    """Draw the behaviours of a block of users, by user and time."""
    rng = np.random.default_rng([0, first_user])
    lengths = rng.geometric(1 / BEHAVIORS_PER_USER, users)
    minute = rng.integers(1_600_000_000 // 60, 1_610_000_000 // 60, lengths.sum())
    key = np.sort((np.repeat(np.arange(users), lengths) << 32) | minute)
    item = (rng.random(len(key)) ** 3 * items).astype(np.int64) + 1
    return pa.table({"user": (key >> 32) + first_user + 1, "item": item, "time": (key & (2**32 - 1)) * 60})


def measure(path: str, folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    """Run one path in this process."""
    import deep_interest.datasets
    import deep_interest.engines.path
    import deep_interest.pipelines.ingest.nodes
    import deep_interest.pipelines.samples.nodes  # noqa: F401  # imports are not what is measured

    with tempfile.TemporaryDirectory(dir=folder) as made:
        tables = Tables(Path(made), arguments, on_engine=path == "duckdb")
        begin = time.perf_counter()
        tables.ingest(folder)
        ingested = time.perf_counter()
        rows = tables.samples()
        end = time.perf_counter()
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        line = {
            "bench": "data_path", "case": path, "behaviors": pq.read_metadata(folder / "behaviors.parquet").num_rows,
            "samples": rows, "ingest_seconds": round(ingested - begin, 1), "seconds": round(end - begin, 1),
            "peak_rss_mb": round(kilobytes / 1024), "output_mb": round(size_of(Path(made), OUTPUTS) / 2**20),
        }  # fmt: skip
        if path == "duckdb":
            line["memory_limit"] = arguments.memory_limit
        return line | ({"sha256": digest(Path(made) / "samples")} if arguments.hashes else {})


def size_of(folder: Path, names: tuple[str, ...]) -> int:
    """Return the bytes of the files below some folders."""
    return sum(file.stat().st_size for name in names for file in (folder / name).rglob("*") if file.is_file())


class Tables:
    """The nodes of ingest and samples with the datasets of the catalog, in memory or on DuckDB.

    Args:
        made: folder of the results.
        arguments: arguments of the benchmark.
        on_engine: whether the environment is that of DuckDB.
    """

    def __init__(self, made: Path, arguments: argparse.Namespace, *, on_engine: bool) -> None:
        from deep_interest.datasets import BehaviorLogFolder, EngineTable, FeatureTablesFolder, SamplesFolder
        from deep_interest.datasets.checked import pandas_ParquetDataset as ParquetTable

        connection = {
            "backend": "duckdb", "memory_limit": arguments.memory_limit, "temp_directory": str(made / "spill"), "threads": arguments.threads,
        }  # fmt: skip
        self._made, self._arguments, self._on_engine = made, arguments, on_engine
        self._behaviors = ParquetTable(filepath=str(made / "behaviors.parquet"), save_args={"index": False})
        self._samples = ParquetTable(
            filepath=str(made / "samples" / "samples.parquet"), save_args={"index": False}
        )
        if on_engine:
            self._behaviors = EngineTable(
                filepath=str(made / "behaviors.parquet"),
                connection=connection,
                rows_per_partition=arguments.rows_per_partition,
            )
            self._samples = SamplesFolder(filepath=str(made / "samples"))
        self._items = ParquetTable(filepath=str(made / "items.parquet"), save_args={"index": False})
        self._log = BehaviorLogFolder(filepath=str(made / "log"))
        self._features = FeatureTablesFolder(filepath=str(made / "features"))

    def ingest(self, folder: Path) -> None:
        """Read the raw files and save behaviours and items."""
        from deep_interest.pipelines.ingest.nodes import make_ingest_behaviors
        from deep_interest.pipelines.parameters import IngestParameters

        limit = self._arguments.memory_limit if self._on_engine else None
        options = IngestParameters(
            memory_limit=limit,
            rows_per_partition=self._arguments.rows_per_partition,
            workspace=str(self._made),
        )
        behaviors, items, _ = make_ingest_behaviors("bench")(folder, parameters(), options)
        self._behaviors.save(behaviors)
        self._items.save(items)

    def samples(self) -> int:
        """Make log, features and samples, save them, and return the number of samples."""
        from deep_interest.pipelines.samples import nodes

        behaviors, items = self._behaviors.load(), self._items.load()
        ids = nodes.build_vocabularies(behaviors, items)
        log, features, samples, summary = nodes.samples_from_behaviors(
            behaviors, items, *ids, {}, parameters()
        )
        self._log.save(log)
        self._features.save(features)
        self._samples.save(samples)
        return int(summary.loc[summary["split"] == "all", "rows"].iloc[0])


def parameters():
    """Parameters of the dataset: ``next_item``, hashed."""
    from deep_interest.pipelines.parameters import DatasetParameters

    source = {"folder": ".", "behaviors": {"files": "behaviors.parquet"}, "items": {"files": "items.parquet"}}
    block = {"title": "Data path", "source": source, "protocol": {"name": "next_item", "sampling": "hashed"}}
    return DatasetParameters.model_validate(block)


def digest(folder: Path) -> str:
    """SHA-256 of the samples, sorted by all columns."""
    frame = pd.concat([pd.read_parquet(file) for file in sorted(folder.rglob("*.parquet"))])
    frame = frame.drop(columns="partition", errors="ignore")
    frame["split"] = frame["split"].astype("str")
    frame = frame.sort_values(list(frame), ignore_index=True)
    return hashlib.sha256(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes()).hexdigest()


if __name__ == "__main__":
    main()
