"""Runs keep all files of the project and detect every damaged file."""

import json
import subprocess
import sys

import pytest
from support.project import PROJECT, environment

AUDIT = PROJECT / "benchmarks/audit"
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Project with results, which both audits damage and restore."""
    folder = tmp_path_factory.mktemp("audit") / "project"
    audit("bit_flips", folder, "--count=1")
    return folder


def audit(name, project, *arguments):
    """Run an audit script and return its JSON lines."""
    done = subprocess.run(
        [sys.executable, str(AUDIT / f"{name}.py"), f"--project={project}", *arguments],
        env=environment() | {"PYTHONPATH": str(PROJECT / "src")}, text=True, check=False, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_simulating_the_log_keeps_the_simulated_days(project):
    """The project has simulated its days first, then the log."""
    raw = project / "data/smoke/01_raw/simulated"
    days = sorted(path.name for path in (raw / "days").iterdir())
    assert (len(days), days[0], days[-1]) == (15, "2024-03-01", "2024-03-15")
    assert {path.name for path in raw.iterdir()} == {"days", "log"}
    assert {path.name for path in (raw / "log").iterdir()} == {
        "SHA256SUMS", "behaviors.parquet", "impressions.parquet", "items.parquet", "users.parquet",
    }  # fmt: skip


def test_no_run_leaves_unfinished_files(project):
    assert not list((project / "data").rglob("*.part"))


def test_every_bit_flip_is_detected(project):
    lines = audit("bit_flips", project, "--count=100")
    assert [(line["flips"], line["undetected"]) for line in lines] == [(100, 0), (100, 0)]


def test_every_damaged_file_is_detected(project):
    *_, total = audit("damaged_files", project, "--count=20", "--runs=0")
    assert (total["error"], total["silent"]) == (20, 0)
