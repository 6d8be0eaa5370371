"""Mutation testing: change one expression of the code at a time, and see whether a test fails.

    python benchmarks/audit/mutants.py                  # 300 mutants, drawn with seed 0: `make mutants`
    python benchmarks/audit/mutants.py --count 0        # all of them, about 10,000: a night or more
    python benchmarks/audit/mutants.py --packages evaluation --count 100 --seed 3

mutmut makes the mutants (`[tool.mutmut]` in pyproject.toml) and runs, for each one, the tests that reach the changed
function. It works in `mutants/` of the current folder and keeps what is done: the same command resumes. Text of error
messages and log lines is not mutated. One JSON line for each package, one for the whole, and the survivors with their
changes in `build/mutants/survivors.diff`.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("models", "training", "logs", "evaluation", "retraining")
SURVIVED = ("survived", "no tests", "suspicious")
KILLED = ("killed", "timeout", "segfault", "caught by type check")
REPORT = Path("build/mutants/survivors.diff")


def main() -> None:
    options = _options()
    known = _states()
    if not known:
        mutmut("run", "--max-children", str(options.processes), "no.mutant.has.this.name")  # makes them all
        known = _states()
    chosen = sorted(_sample(list(known), options.packages, options.count, options.seed))
    if not chosen:
        sys.exit("no mutants: run from the project's root, with the packages that [tool.mutmut] names")
    mutmut("run", "--max-children", str(options.processes), *chosen)
    states = {name: state for name, state in _states().items() if name in set(chosen)}
    for line in _lines(states, options.packages):
        print(json.dumps(line))
    survivors = [name for name, state in states.items() if state in SURVIVED]
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("".join(mutmut("show", name) for name in survivors), encoding="utf-8")
    print(f"survivors: {REPORT}", file=sys.stderr)


def mutmut(*arguments: str) -> str:
    """Run mutmut; its output, with the progress spinner on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode and "no.mutant.has.this.name" not in arguments:
        sys.exit(f"mutmut {arguments[0]} failed with status {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def _states() -> dict[str, str]:
    """``{mutant: state}`` of every mutant that has been made."""
    if not Path("mutants").is_dir():
        return {}
    lines = mutmut("results", "--all", "true").splitlines()
    pairs = [line.strip().rsplit(": ", 1) for line in lines if ": " in line]
    return {name: state for name, state in pairs if "__mutmut_" in name}


def _sample(names: list[str], packages: list[str], count: int, seed: int) -> list[str]:
    """A random choice of ``count`` mutants of the packages, the same for the same seed; all if ``count`` is 0."""
    wanted = sorted(name for name in names if name.split(".")[1] in packages)
    return wanted if not count else random.Random(seed).sample(wanted, min(count, len(wanted)))


def _lines(states: dict[str, str], packages: list[str]) -> Iterator[dict[str, object]]:
    for package in [*packages, "all"]:
        own = [state for name, state in states.items() if package in ("all", name.split(".")[1])]
        killed = sum(state in KILLED for state in own)
        survived = sum(state in SURVIVED for state in own)
        judged = killed + survived
        yield {
            "bench": "mutants", "case": package, "mutants": len(own), "killed": killed, "survived": survived,
            "share_killed": round(killed / judged, 4) if judged else None,
        }  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="mutants to try; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice")
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=PACKAGES)
    parser.add_argument("--processes", type=int, default=2, help="mutants tested at the same time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
