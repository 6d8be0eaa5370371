"""Are the samples of real datasets the same on NumPy, DuckDB and Spark? One JSON line per dataset.

    DEEP_INTEREST_RAW=/path/to/raw python benchmarks/engines.py [amazon_toys movielens_1m kuairand] [--partitions 1 3 8]

Each dataset is read from its raw files with its own configuration and ``protocol.sampling: hashed``. A line has the number of
samples, the SHA-256 of the sorted samples and the seconds from canonical tables to samples for NumPy, for DuckDB and for Spark
with each number of partitions, and ``equal``. Needs the extra ``spark`` and Java.
"""

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from deep_interest.datasets import SamplesFolder
from deep_interest.engines import vocabularies
from deep_interest.engines.connections import connect, engine_of
from deep_interest.engines.path import make_samples
from deep_interest.experiments import datasets_of
from deep_interest.logs.tables import CanonicalTables
from deep_interest.pipelines.ingest import nodes as ingest
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples import nodes
from deep_interest.sources.downloads import raw_location

PROJECT = Path(__file__).parents[1]
FILES = {
    "amazon_toys": ["amazon/reviews_Toys_and_Games_5.json.gz", "amazon/meta_Toys_and_Games.json.gz"],
    "amazon_beauty": ["amazon/reviews_Beauty_5.json.gz", "amazon/meta_Beauty.json.gz"],
    "movielens_100k": ["movielens/ml-100k.zip"],
    "movielens_1m": ["movielens/ml-1m.zip"],
}


def main() -> None:
    """Compare the samples of each dataset."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="*", default=["amazon_toys", "movielens_1m", "kuairand"])
    parser.add_argument("--partitions", nargs="+", type=int, default=[1, 3, 8])
    parser.add_argument("--max-users", type=int, help="sample of the users, for a quick look")
    arguments = parser.parse_args()
    duckdb = connect("duckdb", {})
    spark = connect(
        "pyspark",
        {"master": "local[2]", "settings": {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": 4}},
    )
    for dataset in arguments.datasets:
        block = yaml.safe_load((PROJECT / "conf/base/parameters/datasets.yml").read_text())["datasets"][
            dataset
        ]
        block["protocol"]["sampling"] = "hashed"
        if arguments.max_users:
            block["reading"] = block.get("reading", {}) | {"max_users": arguments.max_users}
        has_impressions = datasets_of({dataset: block})[dataset].impressions
        tables = read(dataset, DatasetParameters.model_validate(block), has_impressions)
        runs: dict[str, Callable[[], pd.DataFrame]] = {"numpy": partial(on_numpy, *tables)}
        runs |= {
            f"{name}_{count}": partial(on_engine, connection, count, *tables)
            for name, connection in (("duckdb", duckdb), ("spark", spark))
            for count in arguments.partitions
        }
        print(json.dumps(compare(dataset, runs)), flush=True)
    duckdb.disconnect()


def compare(dataset: str, runs: dict[str, Callable[[], pd.DataFrame]]) -> dict[str, Any]:
    """Run each path and hash its samples."""
    rows, hashes, seconds = {}, {}, {}
    for name, run in runs.items():
        begin = time.perf_counter()
        samples = run()
        seconds[name] = round(time.perf_counter() - begin, 1)
        rows[name], hashes[name] = len(samples), digest(samples)
    return {
        "bench": "engines", "case": dataset, "samples": rows["numpy"], "equal": len(set(hashes.values())) == 1,
        "sha256": hashes, "seconds": seconds,
    }  # fmt: skip


def read(
    dataset: str, settings: DatasetParameters, has_impressions: bool
) -> tuple[CanonicalTables, DatasetParameters]:
    """Return the canonical tables of a dataset, by its own node."""
    root = Path(str(raw_location()))
    if dataset not in FILES:
        make = ingest.make_ingest_tables if has_impressions else ingest.make_ingest_behaviors
        behaviors, items, left_out, *others = make(dataset)(root, settings)
        return CanonicalTables(behaviors, items, *others, left_out=left_out), settings
    node = ingest.ingest_amazon if dataset.startswith("amazon") else ingest.ingest_movielens
    behaviors, items, left_out = node(*(root / file for file in FILES[dataset]), settings)
    return CanonicalTables(behaviors, items, left_out=left_out), settings


def on_numpy(tables: CanonicalTables, settings: DatasetParameters) -> pd.DataFrame:
    """Samples of today's nodes."""
    ids = nodes.build_vocabularies(tables.behaviors, tables.items, tables.impressions)
    arguments = (tables.behaviors, tables.items, *ids, tables.left_out, settings)
    if tables.impressions is None:
        return nodes.samples_from_behaviors(*arguments)[2]
    return nodes.samples_from_impressions(*arguments, tables.users, tables.impressions)[2]


def on_engine(
    connection: Any, partitions: int, tables: CanonicalTables, settings: DatasetParameters
) -> pd.DataFrame:
    """Samples of an engine, from Parquet files of the tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = {"behaviors": tables.behaviors, "impressions": tables.impressions}
        for key, table in events.items():
            if table is not None:
                table.to_parquet(folder / f"{key}.parquet", index=False)
        behaviors, impressions = (
            None if table is None else connection.read_parquet(str(folder / f"{key}.parquet"))
            for key, table in events.items()
        )
        (folder / "engine").mkdir()
        made = make_samples(
            engine_of(connection, folder / "engine", partitions), behaviors, impressions,
            entities=CanonicalTables(pd.DataFrame(), tables.items, tables.users),
            user_ids=vocabularies.user_ids(connection, behaviors, impressions),
            item_ids=nodes.build_vocabularies(tables.behaviors, tables.items)[1],
            left_out=tables.left_out, protocol=settings.protocol, features=settings.features,
        )  # fmt: skip
        dataset = SamplesFolder(filepath=str(folder / "samples.parquet"))
        dataset.save(made.samples)
        return dataset.load()


def digest(samples: pd.DataFrame) -> str:
    """SHA-256 of the names, types and sorted rows of the samples."""
    columns = sorted(samples)
    frame = samples[columns].assign(split=samples["split"].cat.codes)
    frame = frame.sort_values(columns, ignore_index=True)
    head = json.dumps([[name, str(frame[name].dtype)] for name in columns])
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return hashlib.sha256(head.encode() + rows.tobytes()).hexdigest()


if __name__ == "__main__":
    main()
