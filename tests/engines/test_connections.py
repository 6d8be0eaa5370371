"""What is missing on a machine is one message; none of these tests needs the extra ``spark`` or Java."""

import pytest

from deep_interest.engines import connections
from deep_interest.engines.connections import connection_config
from deep_interest.errors import InputError


@pytest.mark.parametrize(
    ("backend", "installed", "missing"),
    [("duckdb", (), "ibis"), ("pyspark", (), "ibis and pyspark"), ("pyspark", ("ibis",), "pyspark")],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch, backend, installed, missing):
    monkeypatch.setattr(connections, "find_spec", lambda name: object() if name in installed else None)
    with pytest.raises(
        InputError, match=rf"{backend} needs {missing}; .*pip install .*deep-interest\[spark\]"
    ):
        connection_config(backend, {})


def test_missing_java_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(connections, "find_spec", lambda name: object())
    monkeypatch.setattr(connections.shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match=r"pyspark needs Java.*install Java 17"):
        connection_config("pyspark", {})


def test_an_unknown_backend_is_an_error_that_lists_the_others():
    with pytest.raises(InputError, match="found polars; use one of duckdb, pyspark"):
        connection_config("polars", {})


def test_settings_of_duckdb_are_those_of_the_catalog(monkeypatch, tmp_path):
    monkeypatch.setattr(connections, "find_spec", lambda name: object())
    config = connection_config("duckdb", {"memory_limit": "1GB", "temp_directory": str(tmp_path / "spill")})
    assert config["backend"] == "duckdb"
    assert config["memory_limit"] == "1GB"
    assert (tmp_path / "spill").is_dir()
