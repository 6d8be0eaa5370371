"""The benchmark of the data path runs, and both paths write the same samples."""

import json
import subprocess
import sys

import pytest
from support.project import PROJECT

pytestmark = pytest.mark.cluster


def test_the_benchmark_finds_the_same_samples_in_memory_and_within_a_limit(tmp_path):
    command = [
        sys.executable,
        "benchmarks/data_path.py",
        "--quick",
        "--hashes",
        "--rows-per-partition",
        "70000",
    ]
    process = subprocess.run(
        [*command, "--work", str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    numpy, duckdb = map(json.loads, process.stdout.splitlines())
    assert (numpy["case"], duckdb["case"]) == ("numpy", "duckdb")
    assert numpy["behaviors"] == duckdb["behaviors"] == 200_000
    assert numpy["samples"] == duckdb["samples"] > 200_000
    assert numpy["sha256"] == duckdb["sha256"]
