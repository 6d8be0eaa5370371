"""An industrial log from nothing to a trained model: time and peak memory of each stage.

    python benchmarks/industrial.py [--behaviors 1000000 10000000] [--work DIR]

A log of B behaviours has B / 5 impressions, B / 10 items and B / 20 users. Stages: ``simulate`` draws it, ``ingest`` reads, checks and
sorts it, ``samples`` codes it, ``train`` is one epoch of DIN with MBA by the recipe ``paper_industrial``. Each runs in a process of its own and prints
one JSON line; what a stage leaves on disk the next one reads. ``held_mb`` of training is what it works on: log, features, samples, parameters and
the optimiser's state.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

CONF = Path(__file__).parents[1] / "conf/base/parameters"
DATASET = "simulated"
MODEL = "din_mba"
USERS_AT_ONCE = 10_000


def simulate(folder: Path, behaviors: int) -> None:
    """Draw the log as four Parquet files."""
    from deep_interest.datasets import ParquetFolder
    from deep_interest.pipelines.simulate.nodes import simulate
    from deep_interest.simulation.config import SimulationConfig

    config = SimulationConfig(
        users=behaviors // 20, items=behaviors // 10, categories=1_000, themes=50, shops=max(1_000, behaviors // 200), mean_behaviors=20,
        mean_impressions=4, session_impressions=4, block_users=USERS_AT_ONCE,
    )  # fmt: skip
    ParquetFolder(filepath=str(folder / "raw")).save(simulate(config))


def ingest(folder: Path, behaviors: int) -> None:
    """Raw tables to canonical tables."""
    from deep_interest.pipelines.ingest.nodes import make_ingest_tables

    made = make_ingest_tables(DATASET)(folder / "raw", _settings())
    for name, table in zip(("behaviors", "items", "left_out", "users", "impressions"), made, strict=True):
        if name != "left_out":
            _table(folder, name).save(table)


def samples(folder: Path, behaviors: int) -> None:
    """Canonical tables to vocabularies, log, features and samples."""
    from deep_interest.datasets import BehaviorLogFolder, FeatureTablesFolder
    from deep_interest.pipelines.samples.nodes import build_vocabularies, samples_from_impressions

    log, items, users, impressions = (
        _table(folder, name).load() for name in ("behaviors", "items", "users", "impressions")
    )
    ids = build_vocabularies(log, items, impressions)
    coded, features, made, _ = samples_from_impressions(log, items, *ids, {}, _settings(), users, impressions)
    BehaviorLogFolder(filepath=str(folder / "log")).save(coded)
    FeatureTablesFolder(filepath=str(folder / "features")).save(features)
    _table(folder, "samples").save(made)


def train(folder: Path, behaviors: int) -> dict[str, Any]:
    """One epoch of DIN with MBA; Adam keeps two numbers a parameter."""
    from deep_interest.datasets import BehaviorLogFolder, FeatureTablesFolder
    from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
    from deep_interest.training.runs import Data, Experiment, fit_seed

    recipe = Recipes(_read("recipes")).root["paper_industrial"]
    run = RunParameters(
        device="cpu", options={"epochs": 1}, workspace=str(folder / "fits"), checkpoint_seconds=10**6
    )
    experiment = Experiment(DATASET, MODEL, RowOptions(_read("models")[MODEL]), recipe, (1,), run)
    loaded = (
        dataset(filepath=str(folder / name)).load()
        for dataset, name in ((BehaviorLogFolder, "log"), (FeatureTablesFolder, "features"))
    )
    data = Data(*loaded, _table(folder, "samples").load())
    parameters = fit_seed(experiment, data, 1).state.values()
    held = sum(array.nbytes for array in data.arrays().values()) + 3 * sum(
        array.nbytes for array in parameters
    )
    return {"held_mb": held >> 20}


STAGES = {"simulate": simulate, "ingest": ingest, "samples": samples, "train": train}


def main() -> None:
    """Measure every stage at every size, or the one that ``--stage`` names in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--behaviors", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        print(json.dumps(measure(arguments.stage, arguments.work, arguments.behaviors[0])), flush=True)
        return
    for behaviors in arguments.behaviors:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            for stage in STAGES:
                command = [
                    sys.executable,
                    __file__,
                    "--stage",
                    stage,
                    "--work",
                    folder,
                    "--behaviors",
                    str(behaviors),
                ]
                subprocess.run(command, check=True)


def measure(stage: str, folder: Path, behaviors: int) -> dict[str, Any]:
    """Run one stage in this process."""
    begin = time.perf_counter()
    more = STAGES[stage](folder, behaviors) or {}
    return {
        "bench": "industrial", "case": stage, "behaviors": behaviors, "impressions": behaviors // 5, "items": behaviors // 10,
        "seconds": round(time.perf_counter() - begin, 1), "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **more,
    }  # fmt: skip


def _settings() -> Any:
    from deep_interest.pipelines.parameters import DatasetParameters

    return DatasetParameters.model_validate(_read("datasets")[DATASET])


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load((CONF / f"{name}.yml").read_text())[name]


def _table(folder: Path, name: str) -> Any:
    from deep_interest.datasets.checked import pandas_ParquetDataset as ParquetTable

    return ParquetTable(filepath=str(folder / f"{name}.parquet"))


if __name__ == "__main__":
    main()
