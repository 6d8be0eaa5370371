"""The thin server of the comparison answers as our service does, for the export of the same model."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from cases import DIN
from peers.thin_server import Job, make_app, onnx_score
from serve import bodies, write_service
from serve_peers import SPREAD, export, line_of, write_arrays
from support.service import running

from deep_interest.service.deployment import Serving
from deep_interest.service.settings import ServiceSettings


@pytest.mark.nightly
def test_the_thin_server_has_the_scores_of_the_service(tmp_path, monkeypatch):
    monkeypatch.setattr("workload.USERS", 50)
    file = write_service(tmp_path, "din", 8, {"access_log": False}, options=SPREAD | DIN)
    settings = ServiceSettings.model_validate_json(file.read_text())
    (settings.folder / "all").rename(settings.snapshots)
    Serving(primary="v1.2024-01-01").write(settings.serving_file)
    export(tmp_path / "v1", tmp_path / "model.onnx")
    with np.load(write_arrays(tmp_path / "arrays.npz")) as found:
        arrays = dict(found)
    job = Job("onnx", "", 0, 1, model=str(tmp_path / "model.onnx"))
    thin = make_app(onnx_score(job, arrays), arrays, None)
    with running(settings) as ours, running(settings, app=thin) as theirs:
        for request in bodies(7, 5):
            body = json.loads(request.partition(b"\r\n\r\n")[2])
            body["candidates"][0]["item"] = 10**9  # unknown
            answers = [client.post("/rank", body).json()["ranking"] for client in (ours, theirs)]
            items, ctr = ([[of[key] for of in ranking] for ranking in answers] for key in ("item", "ctr"))
            assert items[0] == items[1]
            assert np.allclose(*ctr, rtol=0, atol=1e-5)
            assert np.ptp(ctr[0]) > 1e-3
            assert answers[0][0].keys() == answers[1][0].keys()


def test_a_ratio_is_our_throughput_over_that_of_the_side():
    options = SimpleNamespace(threads=2, turns=1, connections=8)
    values = {
        name: {"p50_ms": p50, "saturated_per_s": rate}
        for name, p50, rate in (("ours", 2.0, 300.0), ("onnx", 5.0, 100.0))
    }
    line = line_of(options, "din", 100, values)
    assert (line["onnx"]["ratio"], line["onnx"]["ratio_p50"]) == (3.0, 2.5)
    assert "ratio" not in line["ours"]
