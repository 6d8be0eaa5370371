"""The process that the commands of tests are forked from."""

import os
import subprocess
import sys

import pytest
from support.forked import import_path
from support.project import PROJECT


@pytest.mark.slow
def test_its_modules_can_be_imported():
    """multiprocessing ignores the error if they cannot, and every command of the tests takes seconds longer."""
    done = subprocess.run(
        [sys.executable, "-c", "import support.preloaded"], env=os.environ | {"PYTHONPATH": import_path()}, cwd=PROJECT,
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
