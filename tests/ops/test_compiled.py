import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import deep_interest

SOURCES = Path(deep_interest.__file__).parent
PROGRAM = "from deep_interest.ops.outer import outer; print(outer(1.0), len(outer.stats.cache_hits))"


@pytest.fixture
def package(tmp_path):
    """A package whose compiled function calls one of another file."""
    package = tmp_path / "deep_interest"
    (package / "ops").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "ops/__init__.py").touch()
    shutil.copy(SOURCES / "ops/compiled.py", package / "ops/compiled.py")
    header = "from deep_interest.ops.compiled import compiled\n"
    (package / "ops/inner.py").write_text(header + "@compiled\ndef inner(x):\n    return x + 1\n")
    outer = (
        header + "from deep_interest.ops.inner import inner\n@compiled\ndef outer(x):\n    return inner(x)\n"
    )
    (package / "ops/outer.py").write_text(outer)
    return package


def said(folder):
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(folder)},
        text=True,
        capture_output=True,
        check=True,
    )
    return found.stdout.split()


def test_what_is_kept_belongs_to_all_that_a_function_calls(package, tmp_path):
    assert said(tmp_path) == ["2.0", "0"]
    assert said(tmp_path) == ["2.0", "1"]
    inner = package / "ops/inner.py"
    inner.write_text(inner.read_text().replace("x + 1", "x + 2"))
    assert said(tmp_path) == ["3.0", "0"]


def test_a_copy_of_the_code_takes_what_is_kept_with_it(package, tmp_path):
    said(tmp_path)
    shutil.copytree(tmp_path / "deep_interest", tmp_path / "other/deep_interest")
    assert said(tmp_path / "other") == ["2.0", "1"]
