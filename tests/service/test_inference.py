"""The Open Inference Protocol, judged by its public client, and bad requests."""

import json
import struct

import numpy as np
import pytest
import tritonclient.http as triton
from support.service import CONTEXT, EXPERIMENT, prepared, running
from tritonclient.utils import InferenceServerException

ITEMS = np.array([10, 12, 15])


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with running(prepared(tmp_path_factory.mktemp("service"))) as client:
        yield client


@pytest.fixture(scope="module")
def server(client):
    server = triton.InferenceServerClient(client.url.removeprefix("http://"))
    yield server
    server.close()


def tensor(name, values, kind, *, binary):
    found = triton.InferInput(name, list(values.shape), kind)
    found.set_data_from_numpy(values, binary_data=binary)
    return found


def inputs(*, binary):
    return [
        tensor("user", np.array(["ann"], object), "BYTES", binary=binary), tensor("items", ITEMS, "INT64", binary=binary),
        tensor("hour", np.array([CONTEXT["hour"]]), "INT64", binary=binary),
    ]  # fmt: skip


@pytest.mark.slow
def test_health_and_metadata(server):
    assert server.is_server_live()
    assert server.is_server_ready()
    assert server.is_model_ready(EXPERIMENT)
    assert server.is_model_ready(EXPERIMENT, "v1")
    assert server.get_server_metadata()["name"] == "deep-interest"
    metadata = server.get_model_metadata(EXPERIMENT)
    assert metadata["versions"] == ["v1"]
    described = {of["name"]: of["datatype"] for of in metadata["inputs"]}
    assert described == {
        "items": "INT64",
        "user": "BYTES",
        "bids": "FP64",
        "history": "INT64",
        "time": "INT64",
        "hour": "INT64",
    }


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "JSON"])
def test_scores_are_those_of_the_ranking(server, client, binary):
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("ctr", "ecpm")]
    bids = tensor("bids", np.array([1.0, 2.0, 3.0]), "FP64", binary=binary)
    answer = server.infer(EXPERIMENT, [*inputs(binary=binary), bids], outputs=outputs, request_id="r1")
    expected = client.ctr(items=ITEMS.tolist())
    np.testing.assert_array_equal(answer.as_numpy("ctr"), np.float32([expected[item] for item in ITEMS]))
    np.testing.assert_allclose(answer.as_numpy("ecpm"), answer.as_numpy("ctr") * [1.0, 2.0, 3.0], rtol=1e-6)
    response = answer.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("r1", EXPERIMENT, "v1")


def test_without_a_choice_all_outputs_are_returned(server):
    answer = server.infer(EXPERIMENT, inputs(binary=True))
    assert [of["name"] for of in answer.get_response()["outputs"]] == ["ctr", "ecpm"]


def test_any_id_is_returned(server, client):
    answer = server.infer(EXPERIMENT, inputs(binary=True), request_id="a b/ü")
    assert answer.get_response()["id"] == "a b/ü"


def test_a_version_that_does_not_serve_is_an_error(client):
    response = client.post(f"/v2/models/{EXPERIMENT}/versions/v9/infer", {"inputs": [ITEM, HOUR]})
    assert response.status_code == 404
    assert "version v9 does not serve; v1 does" in response.json()["error"]


def test_binary_output_for_all_is_the_default_of_each(client):
    body = {"inputs": [ITEM, HOUR], "outputs": [{"name": "ctr"}], "parameters": {"binary_data_output": True}}
    response = client.post(f"/v2/models/{EXPERIMENT}/infer", body)
    length = int(response.headers["Inference-Header-Content-Length"])
    assert len(response.content) - length == 4


def test_an_error_reaches_the_client(server):
    with pytest.raises(InferenceServerException, match="items is missing"):
        server.infer(EXPERIMENT, inputs(binary=True)[:1])
    assert not server.is_model_ready("shop.dien")
    assert not server.is_model_ready(EXPERIMENT, "v2")


ITEM = {"name": "items", "shape": [1], "datatype": "INT64", "data": [10]}
HOUR = {"name": "hour", "shape": [1], "datatype": "INT64", "data": [9]}
BAD = {
    "no inputs": ({}, None, "required"),
    "shape and data differ": ([ITEM | {"shape": [2]}, HOUR], "items", "there are 1 values"),
    "unknown datatype": ([ITEM | {"datatype": "INT128"}, HOUR], "items", "INT128 is not a datatype"),
    "data of another type": ([ITEM | {"data": ["10"]}, HOUR], "items", "not of the type INT64"),
    "a boolean as a number": ([ITEM | {"data": [True]}, HOUR], "items", "not of the type INT64"),
    "no data": ([ITEM | {"data": None}, HOUR], "items", "data is missing"),
    "no items": ([HOUR], "items", "items is missing"),
    "an empty list": ([ITEM | {"shape": [0], "data": []}, HOUR], "items", "at least 1"),
    "the same input twice": ([ITEM, ITEM], None, "only once"),
    "another number of bids": ([ITEM, HOUR, ITEM | {"name": "bids", "shape": [2], "data": [1, 2]}], "bids", "2 values for 1 items"),
    "two users": ([ITEM, HOUR, ITEM | {"name": "user", "shape": [2], "data": [1, 2]}], "user", "expected 1"),
    "an unknown input": ([ITEM, HOUR, ITEM | {"name": "colour"}], "context", "needs hour"),
    "a huge shape": ([ITEM | {"shape": [2**40]}, HOUR], "inputs.0.shape.0", "less than"),
    "a nested list": ([ITEM | {"data": [[[10]]]}, HOUR], "items", "not of the type INT64"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_gets_one_error(client, name):
    given, field, message = BAD[name]
    response = client.post(f"/v2/models/{EXPERIMENT}/infer", {"inputs": given} if given else {})
    assert response.status_code == 422, response.text
    answer = response.json()
    assert message in answer["error"]
    assert field is None or answer["field"] == field


def test_an_unknown_output_is_an_error(client):
    body = {"inputs": [ITEM, HOUR], "outputs": [{"name": "clicks"}]}
    response = client.post(f"/v2/models/{EXPERIMENT}/infer", body)
    assert response.status_code == 422
    assert "choose ctr or ecpm" in response.json()["error"]


def binary_body(size, data, kind="BYTES"):
    header = json.dumps(
        {"inputs": [ITEM | {"datatype": kind, "data": None, "parameters": {"binary_data_size": size}}, HOUR]}
    ).encode()
    return header + data, {"Inference-Header-Content-Length": str(len(header))}


BINARY = {
    "more bytes than there are": (100, b"abc", "BYTES", 400),
    "bytes that nothing reads": (4, struct.pack("<I", 0) + b"rest", "BYTES", 400),
    "a string that is cut off": (6, struct.pack("<I", 9) + b"ab", "BYTES", 422),
    "a string that is not UTF-8": (5, struct.pack("<I", 1) + b"\xff", "BYTES", 422),
    "half a number": (5, b"12345", "INT64", 422),
    "a negative size": (-1, b"", "BYTES", 400),
    "a size that is not a number": ("4", b"abcd", "BYTES", 400),
}


@pytest.mark.parametrize("name", BINARY)
def test_bad_binary_data_gets_one_error(client, name):
    size, data, kind, status = BINARY[name]
    body, headers = binary_body(size, data, kind)
    response = client.post(f"/v2/models/{EXPERIMENT}/infer", body, headers=headers)
    assert response.status_code == status, response.text
    assert isinstance(response.json()["error"], str)


@pytest.mark.parametrize("length", ["x", "-1", "99999999"])
def test_a_bad_header_length_is_an_error(client, length):
    body, _ = binary_body(0, b"")
    response = client.post(
        f"/v2/models/{EXPERIMENT}/infer", body, headers={"Inference-Header-Content-Length": length}
    )
    assert response.status_code == 400
