"""The mirror in MLflow, as MLflow's own client sees it."""

import pytest

from deep_interest.errors import InputError
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.serving import mlflow_alias
from deep_interest.serving.mlflow_alias import require_mlflow, sync_to_mlflow
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import VersionArtifacts

MANIFEST = {
    "strategy": "warm_start", "days": {"trained": ["2024-03-01", "2024-03-02"], "held_out": "2024-03-03"},
    "verdict": {"challenger": {"gauc": 0.625, "logloss": 0.5, "calibration": 1.1}},
}  # fmt: skip


@pytest.fixture
def registry(tmp_path):
    """A registry of three versions, none of which serves yet."""
    made = Registry(tmp_path / "registry")
    for name in ("v1", "v2", "v3"):
        made.add(name, VersionArtifacts(MANIFEST, {}, {}, FieldVocabularies()))
    return made


@pytest.mark.slow
def test_alias_follows_the_champion(registry, tmp_path):
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    sync_to_mlflow(registry, "shop.din", uri)
    with pytest.raises(MlflowException):
        client.get_model_version_by_alias("shop.din", "champion")
    for change, expected in (
        (lambda: registry.promote("v1"), "v1"),
        (lambda: registry.promote("v3"), "v3"),
        (registry.rollback, "v1"),
    ):
        change()
        sync_to_mlflow(registry, "shop.din", uri)
        serving = client.get_model_version_by_alias("shop.din", "champion")
        assert serving.tags["version"] == expected
        assert serving.source == (registry.folder / expected).as_uri()
    assert serving.tags["gauc"] == "0.625"
    assert (serving.tags["first_day"], serving.tags["last_day"]) == ("2024-03-01", "2024-03-02")
    assert {one.tags["version"] for one in client.search_model_versions("name = 'shop.din'")} == {"v1", "v3"}


@pytest.mark.slow
def test_unreachable_server_is_a_warning(registry, caplog):
    registry.promote("v1")
    sync_to_mlflow(registry, "shop.din", "http://127.0.0.1:9")  # no server there
    assert "could not be updated" in caplog.text
    assert registry.champion().id == "v1"


def test_uri_without_mlflow_installed_raises(monkeypatch):
    require_mlflow()
    monkeypatch.setattr(mlflow_alias, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"MLflow is not installed; pip install 'deep-interest\[mlflow\]'"):
        require_mlflow()
