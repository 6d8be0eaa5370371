"""The process that the commands of tests are forked from."""

import os
import subprocess
import sys

import pytest
from support.project import PROJECT


@pytest.mark.slow
def test_its_modules_can_be_imported():
    """multiprocessing ignores the error if they cannot, and every command of the tests takes seconds longer."""
    path = os.pathsep.join(filter(None, [str(PROJECT / "tests"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", "import support.preloaded"]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        cwd=PROJECT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
