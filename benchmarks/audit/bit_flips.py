"""Flip single bits of a finished fit and of a predictions file: ``python benchmarks/audit/bit_flips.py [--count 1000]``.

Each flip must be noticed when the file is read as the pipelines read it. A JSON line for each file with the counts; the exit
status is 1 if a flip was not noticed.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from damaged_files import FITS, LOADED, ROW, read_fit
from kedro.io import DatasetError
from smoke_project import DATA, context_of, finished_project

from deep_interest.errors import InputError


def undetected_flips(path: Path, read: Callable[[], object], count: int, draw: random.Random) -> int:
    """Flip one bit ``count`` times, each in the whole file; the number of flips that reading did not notice."""
    whole, undetected = path.read_bytes(), 0
    read()
    for _ in range(count):
        bit = draw.randrange(8 * len(whole))
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            read()
        except (InputError, DatasetError) as error:
            undetected += str(path) not in str(error)
        else:
            undetected += 1
    path.write_bytes(whole)
    read()
    return undetected


def main() -> int:
    """Flip and read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="flips of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--project", type=Path, help="folder of a project for the audits; made where it is missing"
    )
    arguments = parser.parse_args()
    draw, failed = random.Random(arguments.seed), False
    with tempfile.TemporaryDirectory() as scratch:
        project = finished_project((arguments.project or Path(scratch) / "project").resolve())
        with context_of(project) as context:
            predictions = f"{ROW}.predictions"
            for name, read in (
                (FITS[0], lambda: read_fit(project / DATA / FITS[0])),
                (LOADED[predictions], lambda: context.catalog.load(predictions)),
            ):
                missed = undetected_flips(project / DATA / name, read, arguments.count, draw)
                failed = failed or bool(missed)
                print(
                    json.dumps(
                        {"bench": "bit_flips", "case": name, "flips": arguments.count, "undetected": missed}
                    ),
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
