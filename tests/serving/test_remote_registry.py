"""A registry in an object store, used by several machines: each has a local copy of its own."""

import shutil

import pytest
from support.versions import artifacts

from deep_interest.datasets import RegistryFolder
from deep_interest.io.checksums import damage_of
from deep_interest.serving.registry import RegistryState


@pytest.fixture
def open_on(tmp_path, memory):
    """Open the registry on a machine, through the dataset of the catalog."""

    def open_registry(machine):
        return RegistryFolder(filepath="memory:///shop/din", cache={"path": str(tmp_path / machine)}).load()

    return open_registry


def test_another_machine_sees_versions_and_the_champion(open_on):
    first = open_on("a")
    for version in ("v1", "v2"):
        first.add(version, artifacts())
        first.promote(version)
    second = open_on("b")
    assert second.names() == ["v1", "v2"]
    assert second.champion().id == "v2"
    assert second.rollback() == "v1"
    assert open_on("a").champion().id == "v1"


def test_the_store_has_checksums_that_fit_after_every_change(open_on, memory, tmp_path):
    registry = open_on("a")
    registry.add("v1", artifacts())
    for days in ({}, {"2026-01-01": {}}):
        registry.commit(RegistryState(promotions=("v1",), days=days))
        memory.get("/shop/din", str(tmp_path / "plain"), recursive=True)
        assert damage_of(tmp_path / "plain/champion.json") == ""
        assert damage_of(tmp_path / "plain/v1") == ""
        shutil.rmtree(tmp_path / "plain")


def test_old_versions_are_deleted_in_the_store_as_well(open_on):
    registry = open_on("a")
    for version in ("v1", "v2", "v3"):
        registry.add(version, artifacts())
    assert registry.prune(keep=1) == ["v1", "v2"]
    assert open_on("b").names() == ["v3"]
    assert open_on("a").names() == ["v3"]


def test_a_lost_connection_changes_no_champion_anywhere(open_on, memory, monkeypatch):
    registry = open_on("a")
    for version in ("v1", "v2"):
        registry.add(version, artifacts())
    registry.promote("v1")
    with monkeypatch.context() as broken:
        broken.setattr(memory, "put_file", lambda *_: (_ for _ in ()).throw(OSError("no connection")))
        with pytest.raises(OSError, match="no connection"):
            registry.promote("v2")
    for machine in ("a", "b"):
        assert open_on(machine).champion().id == "v1"
