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
from deep_interest.ops.runtime.jit import _set_cache_stamp

pytestmark = pytest.mark.slow

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


def output_of(folder, program=PROGRAM):
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        text=True,
        capture_output=True,
        check=True,
    )
    return found.stdout.split()


def test_the_cache_is_invalidated_when_a_called_function_changes(package, tmp_path):
    assert output_of(tmp_path) == ["2.0", "0"]
    assert output_of(tmp_path) == ["2.0", "1"]
    inner = package / "ops/runtime/inner.py"
    inner.write_text(inner.read_text().replace("x + 1", "x + 2"))
    assert output_of(tmp_path) == ["3.0", "0"]


def test_a_copy_of_the_package_can_use_its_cache(package, tmp_path):
    output_of(tmp_path)
    shutil.copytree(tmp_path / "deep_interest", tmp_path / "other/deep_interest")
    assert output_of(tmp_path / "other") == ["2.0", "1"]


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


def test_compiled_and_cached_code_compute_the_same_bits(package, tmp_path):
    (package / "ops/kernels/outer.py").write_text(SOFTMAX)
    cold, warm = output_of(tmp_path, WEIGHTS), output_of(tmp_path, WEIGHTS)
    assert (cold[1], warm[1]) == ("0", "1")
    assert cold[0] == warm[0]


def modules():
    found = pkgutil.walk_packages(ops.__path__, f"{ops.__name__}.")
    return [import_module(module.name) for module in found if not module.name.endswith("gru_triton")]


def compiled_functions(module):
    return {each for each in vars(module).values() if isinstance(each, Dispatcher)}


def called_by(function):
    names = function.py_func.__code__.co_names
    return {each for name in names if isinstance(each := function.py_func.__globals__.get(name), Dispatcher)}


def test_kernels_call_only_functions_with_ordered_sums():
    """See `kernel`: only functions that Python calls may reorder their sums."""
    functions = set().union(*map(compiled_functions, modules()))
    assert len(functions) > 50
    for function in functions:
        for called in called_by(function):
            options = called.targetoptions
            is_inline, is_ordered = options.get("inline") == "always", options.get("fastmath") is False
            assert is_inline or is_ordered, (function, called)


def test_compiled_functions_are_defined_where_the_cache_looks_for_changes():
    for function in set().union(*map(compiled_functions, modules())):
        package = function.py_func.__module__.split(".")[2]
        assert package in ("kernels", "runtime"), function


def test_the_stamp_of_a_cache_with_other_attributes_is_an_error():
    class Changed:
        _cache = object()

    with pytest.raises(RuntimeError, match="install numba<"):
        _set_cache_stamp(Changed(), "stamp")
