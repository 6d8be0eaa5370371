"""Kill smoke runs at random moments: ``python benchmarks/audit/kills.py --count 40 [--seed 0]``; one JSON line per kill.

Each kill sends SIGKILL to a run of a dataset, of a search or of a retraining, at a moment drawn uniformly over the length of an
undisturbed run. The same command is then run again. It must end as the undisturbed run did (``same``), with nothing left over
of the killed run (``left_over``). A run that ends before its moment was not killed, and does not count. The exit status is 1 if a kill shows otherwise.
``--cases spark`` kills the data path on Spark instead (extra ``spark`` and Java 17); ``--cases rank_0 rank_1 launcher`` kill one of two ranks,
which ``torchrun`` starts again, or ``torchrun`` itself (extra ``cluster``).
"""

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from runs import Run, left_over, new_project

DATA = "data/smoke"
DAYS = ("--pipelines=simulate_days", "--params=backtest.log.corrupted_day=null")
ENDED = (0, 10, 11)  # promoted, nothing new (the kill came after the last step), refused by the gate


@dataclass(frozen=True)
class Case:
    """What is killed.

    Attributes:
        name: of the case.
        arguments: of the run that is killed.
        outcome: what must be the same, read from a project.
        before: arguments of a run that comes first and is not killed.
        env: configuration environment of the runs.
        ranks: number of ranks of the run; 0 for a single process.
        kill_rank: the rank that is killed, after which the same run has to end as if nothing had happened; None for the whole run.
    """

    name: str
    arguments: tuple[str, ...]
    outcome: Callable[[Path], Any]
    before: tuple[str, ...] | None = None
    env: str = "smoke"
    ranks: int = 0
    kill_rank: int | None = None

    @property
    def run(self) -> tuple:
        """What identifies the run: the same for all cases that kill a part of it."""
        return self.arguments, self.before, self.env, self.ranks


def row_outcome(project: Path) -> Any:
    """The table of a row without its timings, and its predictions."""
    table = pd.read_csv(project / DATA / "08_reporting/simulated/din/results.csv")
    predictions = pd.read_parquet(project / DATA / "07_model_output/simulated/din/predictions.parquet")
    return table.drop(columns=["train_seconds", "samples_per_second"]).to_csv(), predictions.to_csv()


def ranks_outcome(project: Path) -> Any:
    """The table of a model trained on several ranks without its timings, its predictions and its parameters."""
    import torch

    data = project / "data/cluster"
    table = pd.read_csv(data / "08_reporting/simulated/din/results.csv")
    predictions = pd.read_parquet(data / "07_model_output/simulated/din/predictions.parquet")
    checkpoint = torch.load(data / "06_models/simulated/din/checkpoint.pt", weights_only=True)
    states = [
        {name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in state.items()}
        for state in checkpoint["states"]
    ]
    return table.drop(columns=["train_seconds", "samples_per_second"]).to_csv(), predictions.to_csv(), states


def search_outcome(project: Path) -> Any:
    """What a search has found; numbers of trials count those that were interrupted as well."""
    tuned = json.loads((project / DATA / "06_models/simulated/din_mba/tuned.json").read_text())
    return {name: tuned[name] for name in ("values", "validation_gauc", "finished", "pruned", "data")}


def registry_outcome(project: Path) -> Any:
    """The files of a registry by their digests, locks and unfinished files aside."""
    folder = project / DATA / "06_models/simulated/base/registry"
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".")
    }


def samples_outcome(project: Path) -> Any:
    """The samples in the order in which they are read, and the digests of features and log; Spark writes rows in any order."""
    from deep_interest.datasets import SamplesFolder

    data = project / "data/spark"
    samples = SamplesFolder(filepath=str(data / "05_model_input/simulated/samples.parquet")).load()
    return samples.to_csv(), {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((data / "04_feature").rglob("*"))
        if path.suffix in {".npy", ".json"}
    }


SIZES = "simulation.users=300,simulation.items=200,simulation.categories=20,simulation.themes=4,simulation.shops=20"
SPARK = Case("spark", ("--pipelines=samples.simulated", f"--params={SIZES}"), samples_outcome, env="spark")
TRAINING = f"{SIZES},training.seeds=1 2,training.options.epochs=4,recipes.demo.model.embedding_dim=4,training.checkpoint_seconds=0"
RANKS = tuple(
    Case(
        name, ("--pipelines=simulated.din", f"--params={TRAINING}"), ranks_outcome, env="cluster", ranks=2, kill_rank=rank
    )
    for name, rank in (("rank_0", 0), ("rank_1", 1), ("launcher", None))
)  # fmt: skip
CASES = (
    Case("dataset", ("--pipelines=simulated.din", "--params=training.checkpoint_seconds=0"), row_outcome),
    Case("tune", ("--pipelines=tune.simulated.din_mba",), search_outcome),
    Case("retrain", ("--pipelines=retrain.simulated.base", "--params=training.checkpoint_seconds=0"), registry_outcome, DAYS),
)  # fmt: skip


def case_run(case: Case, project: Path) -> Run:
    """Start the run of a case."""
    return Run(project, case.arguments, case.env, ranks=case.ranks)


def undisturbed(case: Case, folder: Path) -> tuple[Path, Any, float]:
    """A project before the run, the result of an uninterrupted run, and its duration in seconds."""
    prepared = new_project(folder / f"{case.name}.before")
    if case.before:
        status, output, _ = Run(prepared, case.before, case.env).wait()
        assert status == 0, output
    project = shutil.copytree(prepared, folder / f"{case.name}.undisturbed")
    status, output, seconds = case_run(case, project).wait()
    assert status in ENDED, output
    return prepared, case.outcome(project), seconds


def kill(case: Case, prepared: Path, expected: Any, moment: float, project: Path) -> dict[str, Any]:
    """Kill one run, run again, and compare."""
    shutil.copytree(prepared, project)
    run = case_run(case, project)
    if case.kill_rank is None:
        killed = run.kill_at(moment)
        unfinished = len(left_over(project))
        run = case_run(case, project)
    else:
        killed = run.kill_rank_at(case.kill_rank, moment)
        unfinished = len(left_over(project))
    status, output, _ = run.wait()
    same = status in ENDED and case.outcome(project) == expected
    return {
        "bench": "kills", "case": case.name, "at_s": round(moment, 2), "killed": killed, "unfinished": unfinished,
        "status": status, "same": same, "left_over": left_over(project), **({} if same else {"output": output[-2000:]}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="kills in all, the cases taking turns")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    names = {case.name: case for case in (*CASES, SPARK, *RANKS)}
    parser.add_argument("--cases", nargs="+", choices=list(names), default=[case.name for case in CASES])
    arguments = parser.parse_args()
    cases = [names[name] for name in arguments.cases]
    draw, bad = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[tuple, tuple[Path, Any, float]] = {}  # cases that kill parts of the same run share it
        references = {}
        for case in cases[: min(arguments.count, len(cases))]:
            if case.run not in runs:
                runs[case.run] = undisturbed(case, Path(folder))
            references[case.name] = runs[case.run]
        kills = 0
        while kills < arguments.count:
            case = cases[kills % len(cases)]
            prepared, expected, seconds = references[case.name]
            project = Path(folder) / "killed"
            found = kill(case, prepared, expected, draw.uniform(0, seconds), project)
            if found["killed"]:
                kills += 1
            else:  # the machine is faster by now than it was for the undisturbed run
                references[case.name] = prepared, expected, found["at_s"]
            bad += not found["same"] or bool(found["left_over"])
            print(json.dumps(found), flush=True)
            shutil.rmtree(project)
    print(json.dumps({"bench": "kills", "case": "all", "kills": arguments.count, "bad": bad}))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
