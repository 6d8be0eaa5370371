"""`deep_interest.abtest` as a library: the public names, the examples, and the guide."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deep_interest import abtest

GUIDE = Path(__file__).parents[2] / "docs/experiments.md"


def test_every_public_name_can_be_imported():
    assert {name: getattr(abtest, name) for name in abtest.__all__}.keys() == set(abtest.__all__)
    assert callable(abtest.novelty_slope)
    with pytest.raises(AttributeError, match="no attribute 'lifts'"):
        _ = abtest.lifts


@pytest.mark.parametrize("name", ["lift", "sequential", "assignment"])
def test_the_examples_of_the_docstrings_are_true(name):
    result = doctest.testmod(importlib.import_module(f"deep_interest.abtest.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_examples_of_the_guide_are_true():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, GUIDE.name, str(GUIDE), 0)
    assert len(example.examples) > 2
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.slow
def test_the_library_imports_neither_torch_nor_kedro():
    code = "import sys; from deep_interest.abtest import *; assert not {'torch', 'kedro'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
