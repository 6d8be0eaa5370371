"""The benchmarks of the service: percentiles, and the service that they measure."""

import pytest
from serve import bodies, p99, write_service
from support.service import Client, running

from deep_interest.service.deployment import Serving
from deep_interest.service.settings import ServiceSettings


def test_the_99th_percentile_is_a_measured_value():
    assert p99([index / 1000 for index in range(100)]) == pytest.approx(99)
    assert p99([0.005]) == pytest.approx(5)


@pytest.mark.slow
def test_the_measured_service_answers_every_request(tmp_path, monkeypatch):
    monkeypatch.setattr("workload.USERS", 50)
    file = write_service(tmp_path, "dien", 18, {"access_log": False}, versions=2)
    settings = ServiceSettings.model_validate_json(file.read_text())
    assert sorted(of.name for of in (settings.folder / "all").iterdir()) == ["v1.2024-01-01", "v2.2024-01-01"]
    (settings.folder / "all").rename(settings.snapshots)
    Serving(primary="v2.2024-01-01").write(settings.serving_file)
    with running(settings) as client:
        assert isinstance(client, Client)
        for request in bodies(7, 5):
            answer = client.post("/rank", request.partition(b"\r\n\r\n")[2]).json()
            assert answer["version"] == "v2"
            assert answer["unknown_user"] is False
            assert (len(answer["ranking"]), answer["unknown_items"]) == (7, 0)
