"""Run one dataset twice at a time: ``python benchmarks/audit/parallel_runs.py --count 20 [--seed 0]``; one JSON line per pair.

The second run starts at a moment drawn uniformly over the first half of a run, on a log of another seed, so that a table that mixes both
is seen. Each run must end with status 0 and the table of a run alone, or be refused with a message that says who holds the
dataset; at least one must end with status 0. The exit status is 1 if a pair shows otherwise.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from runs import Run, left_over, new_project, reported_table

PIPELINES = ("simulated.lr", "simulated.base")
LOGS = ("simulation.seed=7", "simulation.seed=11")
REFUSED = "is in use by"


def arguments_of(pipeline: str, log: str) -> tuple[str, ...]:
    return f"--pipelines={pipeline}", f"--params={log}"


def alone(pipeline: str, log: str, folder: Path) -> tuple[list[str], float]:
    """The table that a run without another one reports, and its seconds."""
    project = new_project(folder / f"{pipeline}.{log}")
    status, output, seconds = Run(project, arguments_of(pipeline, log)).wait()
    table = reported_table(output)
    assert status == 0 and table, output
    return table, seconds


def judge(status: int, output: str, expected: list[str]) -> str:
    """How a run ended: ``right``, ``refused``, ``wrong`` (another table with status 0) or ``failed``."""
    if status == 0:
        return "right" if reported_table(output) == expected else "wrong"
    return "refused" if REFUSED in output else "failed"


def pair(pipeline: str, tables: list[list[str]], offset: float, project: Path) -> dict[str, Any]:
    """Start two runs ``offset`` seconds apart, and say how each ended."""
    new_project(project)
    first = Run(project, arguments_of(pipeline, LOGS[0]))
    time.sleep(offset)
    second = Run(project, arguments_of(pipeline, LOGS[1]))
    ends = [run.wait() for run in (first, second)]
    outcomes = [judge(status, output, table) for (status, output, _), table in zip(ends, tables, strict=True)]
    good = set(outcomes) <= {"right", "refused"} and "right" in outcomes
    return {
        "bench": "parallel_runs", "case": pipeline, "offset_s": round(offset, 2), "outcomes": outcomes, "good": good,
        "left_over": left_over(project), **({} if good else {"outputs": [output[-2000:] for _, output, _ in ends]}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="pairs in all, the pipelines taking turns")
    parser.add_argument("--seed", type=int, default=0, help="seed of the offsets")
    arguments = parser.parse_args()
    draw, bad = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        references = {
            pipeline: [alone(pipeline, log, Path(folder)) for log in LOGS]
            for pipeline in PIPELINES[: min(arguments.count, len(PIPELINES))]
        }
        for number in range(arguments.count):
            pipeline = PIPELINES[number % len(PIPELINES)]
            tables, seconds = zip(*references[pipeline], strict=True)
            project = Path(folder) / "pair"
            found = pair(pipeline, list(tables), draw.uniform(0, min(seconds) / 2), project)
            bad += not found["good"] or bool(found["left_over"])
            print(json.dumps(found), flush=True)
            shutil.rmtree(project)
    print(json.dumps({"bench": "parallel_runs", "case": "all", "pairs": arguments.count, "bad": bad}))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
