"""Ranking requests that are checked as columns are those that pydantic accepts, with the same values."""

import json

import orjson
import pytest

from deep_interest.service.http import RequestError, parse
from deep_interest.service.rank_request import Ranked, _parse_usual, parse_ranked
from deep_interest.service.schemas import RankRequest

USUAL = [
    {"user": 3, "candidates": [{"item": 1, "bid": 2}, {"item": 2, "bid": 0.5}], "top_k": 1},
    {"candidates": [{"item": "a"}, {"item": "b"}], "context": {"hour": [1, 2]}, "history": ["c"], "gamma": 0},
    {"user": None, "candidates": [{"item": -(2**63)}, {"item": 2**63 - 1}], "request_id": "r-1", "time": 5},
]
UNUSUAL = [
    {"candidates": [{"item": 1, "bid": 2.0}, {"item": 2}]},
    {"candidates": [{"item": 1}, {"item": "a"}]},
    {"candidates": [{"item": 1, "bid": "2.5"}]},
]
INVALID = [
    ({"candidates": []}, "candidates"),
    ({"candidates": [{"item": 1, "bid": 0}]}, "candidates.0.bid"),
    ({"candidates": [{"item": 1, "bid": 2e15}]}, "candidates.0.bid"),
    ({"candidates": [{"item": 1}, {"item": True}]}, "candidates.1.item"),
    ({"candidates": [{"item": 2**63}]}, "candidates.0.item"),
    ({"candidates": [{"item": "a" * 1025}]}, "candidates.0.item"),
    ({"candidates": [{"item": 1, "price": 2}]}, "candidates.0"),
    ({"candidates": [{"item": 1}], "more": 1}, "more"),
    ({"candidates": {"item": 1}}, "candidates"),
    ({"candidates": [{"item": 1}], "gamma": -1}, "gamma"),
]


@pytest.mark.parametrize("body", USUAL)
def test_the_usual_form_is_read_as_columns_with_the_values_of_pydantic(body):
    encoded = orjson.dumps(body)
    assert _parse_usual(encoded) is not None
    assert parse_ranked(encoded).as_json() == Ranked.of(parse(RankRequest, encoded)).as_json()


@pytest.mark.parametrize("body", UNUSUAL)
def test_other_valid_forms_are_left_to_pydantic(body):
    encoded = orjson.dumps(body)
    assert _parse_usual(encoded) is None
    assert parse_ranked(encoded).items == [of["item"] for of in body["candidates"]]


@pytest.mark.parametrize(("body", "field"), INVALID)
def test_an_error_names_the_field(body, field):
    with pytest.raises(RequestError) as error:
        parse_ranked(json.dumps(body).encode())
    assert error.value.status == 422
    assert error.value.field.startswith(field)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b'{"candidates": [NaN]}', b'{"candidates": [{"item": 1, "bid": NaN}]}']
)
def test_what_is_not_a_request_is_refused(body):
    with pytest.raises(RequestError):
        parse_ranked(body)
