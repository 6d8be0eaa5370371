"""`deep_interest.evaluation` as a library: its page, its docstrings, what importing it costs, and ids of any kind."""

import doctest
import importlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from support.project import PROJECT

import deep_interest.evaluation as library
from deep_interest.errors import InputError
from deep_interest.evaluation import gauc, paired_bootstrap, per_user_auc, user_aucs

MODULES = ("bootstrap", "calibration", "inferiority", "power")
NO_TORCH = """
import json, sys
from deep_interest.evaluation import gauc
print(json.dumps([gauc([1, 1], [0, 1], [1, 2]).value, [name for name in ("torch", "kedro", "pandas", "sklearn") if name in sys.modules]]))
"""


@pytest.mark.slow
def test_the_examples_of_the_page_are_true():
    page = (PROJECT / "docs/evaluation.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) > 6
    test = doctest.DocTestParser().get_doctest(
        "\n".join(blocks), {}, "evaluation.md", "docs/evaluation.md", 0
    )
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.tries > 20
    assert runner.failures == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_docstrings_are_true(name):
    result = doctest.testmod(importlib.import_module(f"deep_interest.evaluation.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_every_public_name_exists_and_is_documented():
    page = (PROJECT / "docs/evaluation.md").read_text()
    reference = (PROJECT / "docs/api/evaluation.md").read_text()
    for name in library.__all__:
        value = getattr(library, name)
        assert value.__doc__
        assert f"`{name}" in page or name in page or value.__module__ in reference
    assert set(library.__all__) <= set(dir(library))
    with pytest.raises(AttributeError, match="has no attribute 'gaucc'"):
        library.gaucc  # noqa: B018


@pytest.mark.slow
def test_a_metric_imports_neither_torch_nor_kedro():
    done = subprocess.run([sys.executable, "-c", NO_TORCH], text=True, capture_output=True, check=True)
    assert json.loads(done.stdout) == [1.0, []]


@pytest.mark.parametrize("kind", [np.int32, np.uint64, str, object])
def test_ids_of_users_may_be_integers_or_strings(kind):
    rng = np.random.default_rng(0)
    number, labels, scores = rng.integers(0, 20, 500), rng.integers(0, 2, 500), rng.random(500)
    users = np.array([f"user {of}" for of in number], dtype=kind) if kind in (str, object) else number.astype(kind)  # fmt: skip
    found = per_user_auc(users, labels, scores)
    for user, auc in zip(found.users, found.auc, strict=True):
        assert auc == pytest.approx(roc_auc_score(labels[users == user], scores[users == user]))
    assert gauc(users, labels, scores).value == pytest.approx(gauc(number, labels, scores).value, abs=1e-12)


def test_lists_are_as_good_as_arrays():
    users, labels, scores = ["a", "a", "b", "b"], [1, 0, 1, 0], [0.3, 0.2, 0.1, 0.4]
    assert gauc(users, labels, scores).value == 0.5
    assert user_aucs(users, labels, [scores, scores]).auc.tolist() == [1.0, 0.0]
    assert paired_bootstrap(users, labels, scores, scores, resamples=9).difference == 0


@pytest.mark.parametrize("users", [[1.0, 1.0], [None, None], [b"a", b"a"]])
def test_other_ids_are_refused(users):
    with pytest.raises(InputError, match="expected integers or strings"):
        gauc(users, [0, 1], [1, 2])
