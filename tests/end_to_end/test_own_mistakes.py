"""Mistakes in a user's block or files: ``kedro run`` and ``deep-interest check`` report them in one message."""

import subprocess
import sys

import pandas as pd
import pytest
import yaml
from support.forked import run
from support.project import copy_project, environment

BLOCK = {
    "title": "Mine", "protocol": {"name": "by_day"}, "features": {"item": ["item_id"]},
    "source": {"behaviors": {"files": "visits.csv"}, "impressions": {"files": "impressions.csv"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_project(tmp_path_factory.mktemp("mistakes") / "project")
    raw = project / "data/01_raw/mine"
    raw.mkdir(parents=True)
    pd.DataFrame({"user": ["a"], "item": ["x"], "time": [1]}).to_csv(raw / "visits.csv", index=False)
    impressions = pd.DataFrame({"user": ["a"], "item": ["x"], "time": [2], "label": ["maybe"]})
    impressions.to_csv(raw / "impressions.csv", index=False)
    return project


def write(project, **changes):
    block = yaml.safe_dump({"datasets": {"mine": BLOCK | changes}})
    (project / "conf/base/parameters/mine.yml").write_text(block)


def check(project):
    return subprocess.run(
        [sys.executable, "-m", "deep_interest.commands.main", "check", "mine"], cwd=project, env=environment(), text=True,
        check=False, capture_output=True, timeout=120,
    )  # fmt: skip


def test_an_invalid_file_is_one_message_and_writes_nothing(project):
    write(project)
    message = "impressions.csv, column label (impressions.label): found 1 invalid value(s), for example 'maybe'; expected 0 or 1"
    done = run(project, "--pipelines=samples.mine")
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1].startswith("error: ")
    assert message in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout
    assert not (project / "data/smoke/02_intermediate/mine").exists()
    checked = check(project)
    assert checked.returncode == 1
    assert message in checked.stderr
    assert checked.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": {"behaviors": {"files": "visits.csv"}}}, "protocol.name: by_day needs impressions"),
        ({"features": {"item": ["item_id"], "behavior": ["brand"]}}, "features: behavior: found brand, but a behaviour needs at least one of the item features item_id"),
    ],
)  # fmt: skip
def test_anything_that_would_fail_the_samples_fails_the_check(project, changes, message):
    labels = pd.DataFrame({"user": "a", "item": "x", "time": [2, 90_000, 180_000], "label": [1, 0, 1]})
    labels.to_csv(project / "data/01_raw/mine/labelled.csv", index=False)
    source = {"behaviors": {"files": "visits.csv"}, "impressions": {"files": "labelled.csv"}}
    write(project, **{"source": source} | changes)
    checked = check(project)
    assert (checked.returncode, checked.stdout) == (1, "")
    assert message in checked.stderr


@pytest.mark.parametrize(
    ("name", "counts", "unknown"),
    [
        ("next_item", {"train": "40 20 20", "validation": "40 20 20", "test": "40 20 20"}, "users 0.0% 0.0% 0.0%"),
        ("rated", {"train": "64 32 16", "validation": "8 4 2", "test": "8 4 2"}, "users 0.0% 100.0% 100.0%"),
    ],
)  # fmt: skip
def test_check_describes_the_samples_of_protocols_without_impressions(project, name, counts, unknown):
    users = [user for user in range(20) for _ in range(4)]
    rows = {"user": users, "item": [k % 7 for k in range(80)], "time": list(range(80)), "stars": [3, 5] * 40}
    pd.DataFrame(rows).to_csv(project / "data/01_raw/mine/rated.csv", index=False)
    source = {"behaviors": {"files": "rated.csv", "rating": "stars"}}
    write(project, source=source, protocol={"name": name})
    checked = check(project)
    assert checked.returncode == 0, checked.stderr
    lines = [" ".join(line.split()) for line in checked.stdout.splitlines()]
    assert all(any(line.startswith(f"{split} {row}") for line in lines) for split, row in counts.items())
    assert unknown in lines
    assert "warning: the test set has only" in checked.stdout


def test_check_reports_a_mistyped_key(project):
    write(project, source={"behaviors": {"file": "visits.csv"}})
    checked = check(project)
    assert checked.returncode == 1
    assert checked.stderr.startswith("error: conf/base/parameters/mine.yml, line ")
    assert "file: unknown parameter (found 'visits.csv'); the parameters here are files" in checked.stderr
