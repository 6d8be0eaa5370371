"""One study by one worker and by two: ``python benchmarks/tuning.py [--quick]``; one JSON line a case.

λ and the learning rate of DIN with MBA on a simulated shop. All trials are random and none is pruned, so both cases fit the same
trials, each worker with one thread. They take turns, each in a process of its own; ``seconds`` is the median over the turns from the
samples in memory to the finished study, the workers' start included; ``ratio`` is one worker's seconds by these.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import industrial

MODEL = "din_mba"


def prepare(folder: Path, behaviors: int) -> None:
    """Draw a shop's log and make its samples."""
    for stage in (industrial.simulate, industrial.ingest, industrial.samples):
        stage(folder, behaviors)


def search(folder: Path, *, workers: int, trials: int) -> dict[str, Any]:
    """A new study; its seconds and what its trials came to."""
    from deep_interest.datasets import BehaviorLogFolder, FeatureTablesFolder
    from deep_interest.datasets.checked import pandas_ParquetDataset as ParquetTable
    from deep_interest.pipelines.tune.nodes import hide_test
    from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
    from deep_interest.training.runs import Data, Experiment
    from deep_interest.tuning.parameters import SearchRange, SearchRanges, TuningParameters
    from deep_interest.tuning.search import tune
    from deep_interest.tuning.study import Search

    ranges = SearchRanges(
        training={
            "mba": SearchRange(low=1e-3, high=100, log=True),
            "learning_rate": SearchRange(low=5e-4, high=0.02, log=True),
        }
    )
    tuning = TuningParameters(
        n_trials=trials, workers=workers, random_trials=trials, pruning=False, ranges=ranges, searched=tuple(ranges.by_name()),
    )  # fmt: skip
    recipe = Recipe(training={"epochs": 3, "patience": 3})
    data = Data(
        BehaviorLogFolder(filepath=str(folder / "log")).load(),
        FeatureTablesFolder(filepath=str(folder / "features")).load(),
        hide_test(ParquetTable(filepath=str(folder / "samples.parquet")).load()),
    )
    with tempfile.TemporaryDirectory(dir=folder) as workspace:
        run = RunParameters(workspace=workspace, device="cpu", processes=1, threads=1)
        experiment = Experiment("simulated", MODEL, RowOptions({}), recipe, (1,), run)
        begin = time.perf_counter()
        study = tune(Search(experiment, tuning, "ours"), data)
        seconds = time.perf_counter() - begin
        values = sorted(trial.value for trial in study.get_trials(deepcopy=False))
    return {"seconds": seconds, "values": values, "samples": int((data.samples["split"] == "train").sum())}


def turn(folder: str, workers: int, trials: int) -> dict[str, Any]:
    """A study in a process of its own."""
    command = [sys.executable, __file__, "--folder", folder, "--workers", str(workers), "--trials", str(trials)]  # fmt: skip
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure both cases, alternating, and print them, or run the study that the hidden options name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a third of the log, half the trials, one turn")
    parser.add_argument("--behaviors", type=int, help="of the log")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--turns", type=int)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        print(json.dumps(search(arguments.folder, workers=arguments.workers, trials=arguments.trials)))
        return
    usual = (200_000, 4, 1) if arguments.quick else (600_000, 8, 3)
    asked = arguments.behaviors, arguments.trials, arguments.turns
    behaviors, trials, turns = (own or other for own, other in zip(asked, usual, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), behaviors)
        found = [{workers: turn(folder, workers, trials) for workers in (1, 2)} for _ in range(turns)]
    first = found[0][1]
    if any(case["values"] != first["values"] for cases in found for case in cases.values()):
        sys.exit("the studies did not come to the same trials")
    seconds = {workers: statistics.median(cases[workers]["seconds"] for cases in found) for workers in (1, 2)}
    for workers, taken in seconds.items():
        line = {
            "bench": "tuning", "case": f"{workers} worker{'s' * (workers > 1)}", "model": MODEL, "trials": trials,
            "train_samples": first["samples"], "seconds": round(taken, 1), "ratio": round(seconds[1] / taken, 2),
        }  # fmt: skip
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
