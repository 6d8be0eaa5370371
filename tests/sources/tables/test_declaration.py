"""Validation of the ``source`` block."""

import pytest
from pydantic import ValidationError

from deep_interest.sources.tables.declaration import Source


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"files": "x.csv", "user_column": "u"}, "user_column"),
        ({"files": []}, "at least 1 item"),
        ({"files": "x.csv", "time": {"column": "t", "unit": "minutes"}}, "'seconds', 'milliseconds' or 'microseconds'"),
        ({"files": "x.csv", "time": {"column": "t", "zone": "Europe/Berlim"}}, "'Europe/Berlim' is not a time zone"),
        ({"files": "x.csv", "time": {"column": "t", "unit": "seconds", "format": "%Y"}}, "unit applies to numeric times"),
        ({"files": "x.csv", "item": "i", "sequence": "s"}, "not both"),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_rejected_before_reading(block, message):
    with pytest.raises(ValidationError, match=message):
        Source.model_validate({"behaviors": block})
