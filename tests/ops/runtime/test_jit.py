import os
import pkgutil
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import deep_interest
from deep_interest import ops

SOURCES = Path(deep_interest.__file__).parent
PROGRAM = "from deep_interest.ops.kernels.outer import outer; print(outer(1.0), len(outer.stats.cache_hits))"


@pytest.fixture
def package(tmp_path):
    """A package whose compiled function calls one of another file."""
    package = tmp_path / "deep_interest"
    for folder in ("ops/kernels", "ops/runtime"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "ops/__init__.py").touch()
    shutil.copy(SOURCES / "ops/runtime/jit.py", package / "ops/runtime")
    header = "from deep_interest.ops.runtime.jit import kernel, njit_strict\n"
    (package / "ops/runtime/inner.py").write_text(header + "@njit_strict\ndef inner(x):\n    return x + 1\n")
    outer = (
        header
        + "from deep_interest.ops.runtime.inner import inner\n@kernel\ndef outer(x):\n    return inner(x)\n"
    )
    (package / "ops/kernels/outer.py").write_text(outer)
    return package


def said(folder, program=PROGRAM):
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        text=True,
        capture_output=True,
        check=True,
    )
    return found.stdout.split()


def test_what_is_kept_belongs_to_all_that_a_function_calls(package, tmp_path):
    assert said(tmp_path) == ["2.0", "0"]
    assert said(tmp_path) == ["2.0", "1"]
    inner = package / "ops/runtime/inner.py"
    inner.write_text(inner.read_text().replace("x + 1", "x + 2"))
    assert said(tmp_path) == ["3.0", "0"]


def test_a_copy_of_the_code_takes_what_is_kept_with_it(package, tmp_path):
    said(tmp_path)
    shutil.copytree(tmp_path / "deep_interest", tmp_path / "other/deep_interest")
    assert said(tmp_path / "other") == ["2.0", "1"]


SOFTMAX = """
import numpy as np
from deep_interest.ops.runtime.jit import kernel, njit_strict

@njit_strict
def softmax(scores):
    top, total = scores.max(), scores.dtype.type(0)
    for i in range(len(scores)):
        scores[i, 0] = np.exp(scores[i, 0] - top)
        total += scores[i, 0]
    for i in range(len(scores)):
        scores[i, 0] /= total

@kernel
def outer(scores):
    for first in range(0, len(scores), 50):
        softmax(scores[first : first + 50])
"""
WEIGHTS = """
import hashlib
import numpy as np
from deep_interest.ops.kernels.outer import outer
scores = np.random.default_rng(0).standard_normal((50_000, 1), np.float32)
outer(scores)
print(hashlib.sha256(scores).hexdigest(), len(outer.stats.cache_hits))
"""


def test_a_process_that_compiles_finds_what_one_finds_that_takes_what_is_kept(package, tmp_path):
    (package / "ops/kernels/outer.py").write_text(SOFTMAX)
    cold, warm = said(tmp_path, WEIGHTS), said(tmp_path, WEIGHTS)
    assert (cold[1], warm[1]) == ("0", "1")
    assert cold[0] == warm[0]


def loops():
    """All compiled loops."""
    found = pkgutil.walk_packages(ops.__path__, f"{ops.__name__}.")
    modules = [import_module(module.name) for module in found if not module.name.endswith("gru_triton")]
    return {loop for module in modules for loop in vars(module).values() if isinstance(loop, Dispatcher)}


def called_by(loop):
    names = loop.py_func.__code__.co_names
    return {found for name in names if isinstance(found := loop.py_func.__globals__.get(name), Dispatcher)}


def test_no_loop_calls_one_whose_copies_may_differ():
    """See `kernel`: only loops that Python calls may order their sums as they like."""
    assert len(loops()) > 50
    for loop in loops():
        for called in called_by(loop):
            options = called.targetoptions
            assert options.get("inline") == "always" or options.get("fastmath") is False, (loop, called)
