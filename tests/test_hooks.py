from itertools import pairwise

import pytest
from kedro.io import DatasetError
from kedro.validation import ParameterValidationError

from deep_interest.errors import InputError
from deep_interest.hooks import explain


def chained(*errors):
    """The first error, each raised from the next."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (InputError("reviews.json: line 3"), "error: reviews.json: line 3\n"),
        (chained(DatasetError("outer"), DatasetError("the file is missing")), "error: the file is missing\n"),
        (chained(DatasetError("outer"), InputError("the disk is full")), "error: the disk is full\n"),
        (ParameterValidationError("Parameter 'x'"), "error: Parameter 'x'\n"),
    ],
)
def test_what_a_user_can_mend_is_one_message(error, shown, capsys):
    explain(type(error), error, None)
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize(
    "error", [KeyError("a fault of ours"), chained(DatasetError("outer"), KeyError("a fault of ours"))]
)
def test_a_fault_of_ours_keeps_its_traceback(error, capsys):
    explain(type(error), error, error.__traceback__)
    assert "a fault of ours" in capsys.readouterr().err.splitlines()[0]
