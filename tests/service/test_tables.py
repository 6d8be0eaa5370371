"""A service whose version has tables of reduced precision: its scores, its memory, and that every answer says so."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from support.service import CONTEXT, EXPERIMENT, make_settings, make_snapshot, running, snapshot_of

from deep_interest.models.config import Precision
from deep_interest.models.packed_tables import memory_of_tables
from deep_interest.models.precision import reduce_precision
from deep_interest.service.deployment import Serving
from deep_interest.serving.ranker import Ranker, RankingRequest


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    settings = make_settings(folder, request_log=folder / "requests")
    make_snapshot(settings, "v1")
    make_snapshot(settings, "v2", precision=Precision(tables="int8"))
    Serving(primary="v2.2024-01-01", split="v1.2024-01-01", share=1e-9).write(settings.serving_file)
    return settings


@pytest.fixture(scope="module")
def client(settings):
    with running(settings) as client:
        yield client


@pytest.mark.slow
def test_scores_are_those_of_tables_rounded_by_hand(client, settings):
    """The rows of the version's float32 tables, rounded in NumPy: 127 steps up to the largest value of a row."""
    ranker = Ranker(snapshot_of(settings))
    for table in ranker.model.embeddings.tables.values():
        rows = table.weight.detach().numpy()
        scales = np.abs(rows).max(1, keepdims=True) / np.float32(127)
        table.weight.data[:] = torch.from_numpy(np.rint(rows / scales) * scales)
    expected = ranker.rank(RankingRequest("ann", [10, 11, 14], context=CONTEXT)).ctr
    found = client.ctr(items=(10, 11, 14))
    np.testing.assert_allclose([found[item] for item in (10, 11, 14)], expected, rtol=1e-6)
    whole = Ranker(snapshot_of(settings)).rank(RankingRequest("ann", [10, 11, 14], context=CONTEXT)).ctr
    assert not np.array_equal(whole, expected)


def test_every_answer_says_which_precision_the_tables_have(client, settings, caplog):
    with caplog.at_level(logging.INFO, logger="deep_interest.access"):
        assert client.rank().json()["precision"] == {"tables": "int8", "attention": "float32"}
    assert json.loads(caplog.messages[-1])["precision"] == "int8 tables"
    (file,) = settings.request_log.glob("*.jsonl")
    assert json.loads(file.read_text().splitlines()[-1])["precision"]["tables"] == "int8"
    text = client.get("/metrics").text
    assert (
        'deep_interest_version_info{attention="float32",experiment="shop.din",tables="int8",version="v2"} 1.0'
        in text
    )
    assert "Version <code>v2</code> serves, in int8 tables." in client.get("/docs").text


def test_the_open_inference_protocol_says_so_too(client):
    path = f"/v2/models/{EXPERIMENT}"
    assert client.get(path).json()["parameters"] == {"v1": "float32", "v2": "int8 tables"}
    body = {
        "inputs": [
            {"name": "items", "shape": [1], "datatype": "INT64", "data": [10]},
            {"name": "hour", "shape": [1], "datatype": "INT64", "data": [9]},
        ]
    }
    assert client.post(f"{path}/infer", body).json()["parameters"] == {
        "tables": "int8",
        "attention": "float32",
    }
    assert client.post(f"{path}/versions/v1/infer", body).json()["parameters"] == {
        "tables": "float32",
        "attention": "float32",
    }


def test_the_tables_are_memory_mapped_and_smaller(settings):
    ranker, whole = Ranker(snapshot_of(settings, "v2.2024-01-01")), Ranker(snapshot_of(settings))
    table = ranker.model.embeddings.tables["item_id"]
    assert table.weight is None
    mapped = Path("/proc/self/maps").read_text()
    assert "v2.2024-01-01/version/embeddings.tables.item_id.values.npy" in mapped
    assert memory_of_tables(ranker.model) < memory_of_tables(whole.model)


def test_a_version_in_bfloat16_is_the_model_in_bfloat16(settings):
    name = make_snapshot(settings, "v4", precision=Precision(attention="bfloat16"))
    request = RankingRequest("ann", [10, 11, 14], context=CONTEXT)
    expected = Ranker(snapshot_of(settings))  # of the same parameters
    whole = expected.rank(request).ctr
    reduce_precision(expected.model, Precision(attention="bfloat16"))
    found = Ranker(snapshot_of(settings, name)).rank(request).ctr
    np.testing.assert_array_equal(found, expected.rank(request).ctr)
    assert 0 < np.abs(found - whole).max() < 0.02


def test_a_cpu_without_amx_is_a_warning(settings, monkeypatch, caplog):
    name = make_snapshot(settings, "v3", precision=Precision(attention="bfloat16"))
    monkeypatch.setattr("deep_interest.serving.ranker.has_amx", lambda: False)
    ranker = Ranker.load(settings.snapshots / name)
    assert str(ranker.precision) == "bfloat16 attention"
    assert "version v3 multiplies in bfloat16, but this CPU has no AMX" in caplog.text
