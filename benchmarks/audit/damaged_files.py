"""Damage files of a finished smoke run, then read them: ``python benchmarks/audit/damaged_files.py [--count 200] [--runs 24]``.

Each damage (a bit flip, truncation, an empty file, the content of another file, appended bytes, a deleted checksum) must end
in an error that names the file, or in a rebuilt result equal to the undamaged one. The damaged file is read as the pipelines
read it; with ``--runs`` some more are read by whole pipeline runs. A JSON line for each damage and one with the counts; the
exit status is 1 if a damage was silent.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from kedro.io import DatasetError
from smoke_project import DATA, MODEL, collected_warnings, context_of, finished_project, results, run_pipeline

from deep_interest.errors import InputError
from deep_interest.serving.registry import Registry
from deep_interest.training.state import load_state

DAMAGES = ("bit flip", "truncated", "empty", "swapped", "appended", "checksum deleted")
ROW = f"simulated.{MODEL}"
LOADED = {  # name in the catalog: what is damaged, a file or a file of a folder
    "simulated.raw_log": "01_raw/simulated/log",
    **{f"simulated.{name}": f"02_intermediate/simulated/{name}.parquet" for name in ("behaviors", "items", "users", "impressions")},
    "simulated.left_out": "02_intermediate/simulated/left_out.json",
    **{f"simulated.{name}": f"03_primary/simulated/{name}.parquet" for name in ("user_ids", "item_ids")},
    **{f"simulated.{name}": f"04_feature/simulated/{name}" for name in ("log", "features")},
    **{f"simulated.{name}": f"05_model_input/simulated/{name}.parquet" for name in ("samples", "tuning_samples")},
    f"{ROW}.checkpoint": f"06_models/simulated/{MODEL}/checkpoint.pt",
    f"{ROW}.tuned": f"06_models/simulated/{MODEL}/tuned.json",
    "simulated.tuned": f"06_models/simulated/{MODEL}/tuned.json",
    f"{ROW}.predictions": f"07_model_output/simulated/{MODEL}/predictions.parquet",
    f"{ROW}.learning_curves": f"07_model_output/simulated/{MODEL}/learning_curves.csv",
    f"{ROW}.settings": f"07_model_output/simulated/{MODEL}/settings.json",
    f"{ROW}.trials": f"08_reporting/simulated/{MODEL}/trials.csv",
    f"{ROW}.run_summary": f"08_reporting/simulated/{MODEL}/retraining/summary.json",
    "simulated.results": "08_reporting/simulated/results.csv",
    "simulated.samples_summary": "08_reporting/simulated/samples_summary.csv",
    "simulated.results_figure": "08_reporting/simulated/results.json",
    "simulated.other_figures": f"08_reporting/simulated/{MODEL}/tuning.json",
}  # fmt: skip
FITS = [f"06_models/simulated/{MODEL}/{name}.pt" for name in ("seed_1", "seed_2", "retraining")]
REGISTRY = f"06_models/simulated/{MODEL}/registry"
RUNS = [  # what is damaged, and the pipeline that reads it
    (LOADED[f"{ROW}.predictions"], "report.simulated"),
    (LOADED[f"{ROW}.learning_curves"], "report.simulated"),
    (LOADED[f"{ROW}.settings"], "report.simulated"),
    (LOADED["simulated.samples"], "report.simulated"),
    (LOADED["simulated.other_figures"], "report.simulated"),
    (FITS[0], "simulated"),
    (FITS[1], "simulated"),
    (LOADED["simulated.log"], "simulated"),
    (LOADED["simulated.raw_log"], "simulated"),
    (f"{REGISTRY}/champion.json", f"retrain.{ROW}"),
]


@dataclass(frozen=True)
class Target:
    """Something that is read back.

    Attributes:
        path: the file, or a folder of which a file is damaged.
        read: reads it as the project does; raises its errors.
    """

    path: Path
    read: Callable[[], Any]


def targets_of(project: Path, catalog: Any) -> list[Target]:
    """All targets of a finished project."""
    data, registry = project / DATA, Registry(project / DATA / REGISTRY)
    version = registry.names()[0]
    return [
        *(Target(data / path, lambda name=name: catalog.load(name)) for name, path in LOADED.items()),
        *(Target(data / path, lambda path=path: read_fit(data / path)) for path in FITS),
        Target(registry.folder / "champion.json", registry.state),
        Target(registry.folder / version, lambda: registry.load(version)),
    ]


def read_fit(path: Path) -> None:
    """Load a finished fit, whatever its fingerprint; its warning as an error."""
    fingerprint = ""
    with suppress(Exception):
        fingerprint = torch.load(path, weights_only=True)["fingerprint"]
    with collected_warnings() as warnings:
        state = load_state(path, fingerprint=fingerprint, device=torch.device("cpu"))
    if state is None and warnings:
        raise InputError("; ".join(warnings))


def damage_file(path: Path, kind: str, others: list[Path], draw: random.Random) -> None:
    """Damage a file, or a random file of a folder."""
    folder = path.is_dir()
    digest = path / "SHA256SUMS" if folder else path.with_name(f".{path.name}.sha256")
    file = draw.choice(sorted(one for one in path.iterdir() if one != digest)) if folder else path
    content = bytearray(file.read_bytes())
    if kind == "bit flip":
        bit = draw.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
    elif kind == "truncated":
        del content[draw.randrange(len(content)) :]
    elif kind == "empty":
        content.clear()
    elif kind == "swapped":
        files = [one for one in others if one.is_file() and one.read_bytes() != content]
        content[:] = draw.choice(files).read_bytes()
    elif kind == "appended":
        content += draw.randbytes(draw.randrange(1, 100))
    elif kind == "checksum deleted":
        digest.unlink()
        return
    file.write_bytes(content)


def saved(path: Path, to: Path) -> Callable[[], None]:
    """Copy a file with its checksum, or a folder; what puts it back."""
    pairs = [(one, to / one.name) for one in (path, path.with_name(f".{path.name}.sha256")) if one.exists()]
    for one, copy in pairs:
        shutil.copytree(one, copy) if one.is_dir() else shutil.copy(one, copy)

    def restore() -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for one, copy in pairs:
            shutil.copytree(copy, one) if copy.is_dir() else shutil.copy(copy, one)

    return restore


def outcome_of(
    path: Path, read: Callable[[], Any], *, same: Callable[[], bool] | None = None
) -> tuple[str, str]:
    """Read a damaged target: ``error``, ``rebuilt`` or ``silent``, and the message."""
    try:
        with collected_warnings() as warnings:
            read()
    except (InputError, DatasetError) as error:
        return ("error" if str(path) in str(error) else "silent"), str(error).splitlines()[-1]
    return ("rebuilt" if same is not None and same() else "silent"), "; ".join(warnings)


def main() -> int:
    """Damage and read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="damages of files that are read one by one")
    parser.add_argument("--runs", type=int, default=24, help="further damages that are read by pipeline runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--project", type=Path, help="folder of a project for the audits; made where it is missing"
    )
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    draw = random.Random(arguments.seed)

    def report(path: Path, kind: str, read_by: str, outcome: str, message: str) -> None:
        counts[outcome] += 1
        line = {
            "file": str(path.relative_to(project)),
            "damage": kind,
            "read_by": read_by,
            "outcome": outcome,
        }
        print(json.dumps({"bench": "damaged_files", **line, "message": message}), flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        project = finished_project((arguments.project or Path(scratch) / "project").resolve())
        with context_of(project) as context:
            targets = targets_of(project, context.catalog)
            others = [target.path for target in targets]
            for number in range(arguments.count):
                target, kind = targets[number % len(targets)], DAMAGES[number // len(targets) % len(DAMAGES)]
                copies = Path(tempfile.mkdtemp(dir=scratch))
                restore = saved(target.path, copies)
                damage_file(target.path, kind, others, draw)
                report(target.path, kind, "load", *outcome_of(target.path, target.read))
                restore()
                shutil.rmtree(copies)
                target.read()  # whole again
            expected = results(project)
            for number in range(arguments.runs):
                (name, pipeline), kind = RUNS[number % len(RUNS)], DAMAGES[number % len(DAMAGES)]
                path, copies = project / DATA / name, Path(tempfile.mkdtemp(dir=scratch))
                restore = saved(path, copies)
                damage_file(path, kind, others, draw)
                outcome, message = outcome_of(
                    path, lambda pipeline=pipeline: run_pipeline(project, pipeline),
                    same=lambda: results(project).equals(expected),
                )  # fmt: skip
                report(path, kind, pipeline, outcome, message)
                if outcome != "rebuilt":
                    restore()
    print(
        json.dumps(
            {
                "bench": "damaged_files",
                "case": "total",
                **{name: counts[name] for name in ("error", "rebuilt", "silent")},
            }
        )
    )
    return 1 if counts["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
