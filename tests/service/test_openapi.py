"""The OpenAPI document, and requests that schemathesis makes from it: no server error, no hang, no traceback."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from support.service import prepared, running

from deep_interest.service.openapi import document

REQUESTS = 70  # per operation and way of making them
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with running(prepared(tmp_path_factory.mktemp("service"))) as client:
        yield client


def operations(client):
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    return [result.ok() for result in schema.get_all_operations()]


def check_operation(client, operation, mode):
    """Send requests of one operation and return their number."""
    sent, expected = 0, {"404", "405", *operation.definition.raw["responses"]}

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=REQUESTS, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None,
        derandomize=True,
    )  # fmt: skip
    def check(case):
        nonlocal sent
        sent += 1
        response = case.call(base_url=client.url, timeout=10)
        assert response.status_code < 500, (case, response.text)
        assert b"Traceback" not in response.content
        assert str(response.status_code) in expected

    try:
        check()
    except Exception as error:
        if "Unsatisfiable" not in type(error).__name__:
            raise  # an operation without parameters has no invalid form
    return sent


@pytest.mark.nightly
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.name.lower())
def test_requests_made_from_the_document_get_documented_answers(client, mode):
    sent = sum(check_operation(client, operation, mode) for operation in operations(client))
    assert sent >= 200


def test_every_route_is_documented(client, tmp_path):
    paths = document(prepared(tmp_path))["paths"]
    for path, operations in paths.items():
        if "get" in operations:
            assert client.get(path.replace("{model}", "shop.din")).status_code == 200
        else:
            assert client.post(path.replace("{model}", "shop.din"), "{").status_code == 400
