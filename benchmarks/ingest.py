"""Time and memory from large raw files to samples: a MovieLens 20M, and 1.7 million Amazon reviews of 750 bytes.

    python benchmarks/ingest.py [--quick] [--work DIR]

The files are generated once, with a fixed seed, into ``--work``. Each case runs in a process of its own and prints
one JSON line: ``read_seconds`` from the raw file to the canonical tables on disk, ``seconds`` on to vocabularies, log,
features and samples on disk, imports not counted; ``peak_rss_mb`` of the whole process.
"""

import argparse
import gzip
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deep_interest.io.atomic import atomic_path

if TYPE_CHECKING:
    from deep_interest.pipelines.parameters import DatasetParameters

DAY = 86_400


@dataclass(frozen=True)
class Sizes:
    """How much is generated; the defaults are MovieLens-20M's and Amazon Electronics' own counts."""

    ratings: int = 20_000_263
    movielens_users: int = 138_493
    movies: int = 27_278
    reviews: int = 1_700_000
    amazon_users: int = 192_403
    items: int = 63_001
    review_bytes: int = 750


QUICK = Sizes(
    ratings=1_000_209, movielens_users=6_040, movies=3_883, reviews=100_000, amazon_users=12_000, items=6_000
)


def ingest_movielens(path: Path) -> tuple:
    """The ``ingest`` node of MovieLens."""
    from deep_interest.pipelines.ingest import nodes

    return nodes.ingest_movielens(path, dataset_parameters("movielens_20m"))


def ingest_amazon(path: Path) -> tuple:
    """The ``ingest`` node of Amazon."""
    from deep_interest.pipelines.ingest import nodes

    return nodes.ingest_amazon(
        path, path.with_name("meta_Electronics.json.gz"), dataset_parameters("amazon_electronics")
    )


def dataset_parameters(dataset: str) -> "DatasetParameters":
    """A dataset's block of the project's own configuration."""
    import yaml

    from deep_interest.pipelines.parameters import DatasetParameters

    file = Path(__file__).parents[1] / "conf/base/parameters/datasets.yml"
    return DatasetParameters.model_validate(yaml.safe_load(file.read_text())["datasets"][dataset])


def write_samples(folder: Path, dataset: str) -> int:
    """The nodes from the canonical tables in ``folder`` to samples in the same folder; returns the samples."""
    from deep_interest.datasets import BehaviorLogFolder, FeatureTablesFolder
    from deep_interest.datasets.checked import pandas_ParquetDataset as ParquetTable
    from deep_interest.pipelines.samples import nodes

    behaviors, items = (
        ParquetTable(filepath=str(folder / f"{name}.parquet")).load() for name in ("behaviors", "items")
    )
    user_ids, item_ids = nodes.build_vocabularies(behaviors, items)
    made = nodes.samples_from_behaviors(behaviors, items, user_ids, item_ids, {}, dataset_parameters(dataset))
    log, features, samples, _ = made
    BehaviorLogFolder(filepath=str(folder / "log")).save(log)
    FeatureTablesFolder(filepath=str(folder / "features")).save(features)
    ParquetTable(filepath=str(folder / "samples.parquet")).save(samples)
    return len(samples)


CASES = {
    "movielens_20m": (ingest_movielens, "ml-20m.zip", "movielens_20m"),
    "amazon_reviews": (ingest_amazon, "reviews_Electronics_5.json.gz", "amazon_electronics"),
}


def main() -> None:
    """Generate what is missing and measure every case, or the one that ``--measure`` names in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the size")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "deep_interest_bench")
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.work / ("quick" if arguments.quick else "full")
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, folder)))
        return
    sizes = QUICK if arguments.quick else Sizes()
    # in a process of its own: a child's peak memory begins with its parent's
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(generate, (folder, sizes))
    for case in CASES:
        command = [sys.executable, __file__, "--work", str(arguments.work), "--measure", case]
        subprocess.run(command + ["--quick"] * arguments.quick, check=True)


def measure(case: str, folder: Path) -> dict[str, object]:
    """Run one case in this process."""
    import deep_interest.datasets
    import deep_interest.pipelines.ingest.nodes
    import deep_interest.pipelines.samples.nodes  # noqa: F401  # imports are not what is measured

    ingest, name, dataset = CASES[case]
    with tempfile.TemporaryDirectory(dir=folder) as made:
        begin = time.perf_counter()
        rows = write_tables(ingest(folder / name), Path(made))
        read = time.perf_counter() - begin
        samples = write_samples(Path(made), dataset)
        seconds = time.perf_counter() - begin
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "bench": "ingest",
        "case": case,
        "behaviors": rows,
        "samples": samples,
        "read_seconds": round(read, 2),
        "seconds": round(seconds, 2),
        "peak_rss_mb": round(kilobytes / 1024),
    }


def write_tables(tables: tuple, folder: Path) -> int:
    """Save behaviours and items as the catalog does; returns the behaviours."""
    from deep_interest.datasets.checked import pandas_ParquetDataset as ParquetTable

    for name, table in zip(("behaviors", "items"), tables, strict=False):
        ParquetTable(filepath=str(folder / f"{name}.parquet")).save(table)
    return len(tables[0])


def generate(folder: Path, sizes: Sizes) -> None:
    """Write the raw files that ``folder`` does not have yet."""
    folder.mkdir(parents=True, exist_ok=True)
    writers = {
        "ml-20m.zip": write_movielens,
        "reviews_Electronics_5.json.gz": write_reviews,
        "meta_Electronics.json.gz": write_metadata,
    }
    for name, write in writers.items():
        if not (folder / name).exists():
            with atomic_path(folder / name) as path:
                write(path, sizes, np.random.default_rng(0))


def write_movielens(path: Path, sizes: Sizes, rng: np.random.Generator) -> None:
    """Write ``ratings.csv`` by user and movie as the publisher does, no movie twice, and ``movies.csv``."""
    user, movie = draw_pairs(sizes, rng)
    rating = rng.choice(10, size=len(user), p=[0.02, 0.03, 0.01, 0.07, 0.04, 0.22, 0.11, 0.28, 0.08, 0.14])
    start = rng.integers(825_000_000, 1_400_000_000, size=sizes.movielens_users + 1)
    stamp = start[user] + rng.integers(0, 90 * DAY, size=len(user))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("ml-20m/ratings.csv", "w", force_zip64=True) as file:
            file.write(b"userId,movieId,rating,timestamp\n")
            write_csv(file, user, movie, rating, stamp)
        genres = [f'{i},"Movie, The {i} (1999)",{("Comedy", "Drama", "Action")[i % 3]}|Thriller\n' for i in
                  range(1, sizes.movies + 1)]  # fmt: skip
        archive.writestr("ml-20m/movies.csv", "movieId,title,genres\n" + "".join(genres))


def draw_pairs(sizes: Sizes, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw ``(ratings,)`` users and movies, each pair once, by user and movie; long tails in both."""
    activity = rng.lognormal(0, 1, size=sizes.movielens_users) + 0.2
    popularity = 1 / np.arange(20, sizes.movies + 20)
    count = int(sizes.ratings * 1.5)
    user = rng.choice(sizes.movielens_users, size=count, p=activity / activity.sum()) + 1
    movie = rng.choice(sizes.movies, size=count, p=popularity / popularity.sum()) + 1
    pairs = np.unique(user * 2**20 + movie)
    pairs = pairs[np.sort(rng.choice(len(pairs), size=sizes.ratings, replace=False))]
    return pairs >> 20, pairs & (2**20 - 1)


def write_csv(
    file: object, user: np.ndarray, movie: np.ndarray, rating: np.ndarray, stamp: np.ndarray
) -> None:
    """Append ratings; ``rating`` holds indexes into 0.5, 1.0, …, 5.0."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    stars = pa.array([str(half / 2) for half in range(1, 11)])
    columns = {"user": user, "movie": movie, "rating": stars.take(pa.array(rating)), "stamp": stamp}
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    pa_csv.write_csv(pa.table(columns), file, options)


def write_reviews(path: Path, sizes: Sizes, rng: np.random.Generator) -> None:
    """Write reviews of ``review_bytes`` each; one in nine words is rare, as in real text."""
    words = np.array([f"word{i:x}" for i in range(20_000)])
    texts = [" ".join(words[(rng.pareto(0.7, size=110) * 3).astype(int) % len(words)]) for _ in range(2_000)]
    user = rng.integers(sizes.amazon_users, size=sizes.reviews)
    item = (rng.random(sizes.reviews) ** 3 * sizes.items).astype(int)
    stamp = rng.integers(10_000, 16_000, size=sizes.reviews) * DAY
    stars = rng.integers(1, 6, size=sizes.reviews)
    with path.open("wb") as raw, gzip.open(raw, "wt", compresslevel=1, encoding="utf-8") as file:
        for row in range(sizes.reviews):
            line = (
                f'{{"reviewerID": "A{user[row]:013d}", "asin": "B{item[row]:09d}", "reviewerName": "Ann", '
                f'"helpful": [0, 0], "overall": {stars[row]}.0, "summary": "fine", "unixReviewTime": {stamp[row]}, '
                '"reviewTime": "02 28, 2014", "reviewText": "'
            )
            text = texts[row % len(texts)]
            cut = row % 97
            file.write(line + (text[cut:] + text)[: sizes.review_bytes - len(line) - 3] + '"}\n')


def write_metadata(path: Path, sizes: Sizes, rng: np.random.Generator) -> None:
    """Write metadata of a kilobyte as Python literals; half the products were never reviewed."""
    with path.open("wb") as raw, gzip.open(raw, "wt", compresslevel=1, encoding="utf-8") as file:
        for item in range(2 * sizes.items):
            bought = [f"B{other:09d}" for other in rng.integers(sizes.items, size=40)]
            entry = {
                "asin": f"B{item:09d}",
                "related": {"also_bought": bought},
                "title": f"Thing {item}",
                "description": "It's a thing. " * 20,
                "categories": [["Electronics", f"Kind {item % 40}", f"Men's kind {item % 801}"]],
            }
            file.write(f"{entry!r}\n")


if __name__ == "__main__":
    main()
