"""Connections to DuckDB and Spark from the configuration, with one message for what is missing."""

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deep_interest.engines.duckdb_engine import DuckDBEngine
from deep_interest.engines.engine import Engine
from deep_interest.engines.spark_engine import SparkEngine
from deep_interest.errors import InputError

_EXTRA = "install the extra: pip install -c constraints.txt 'deep-interest[spark]', in a clone pip install -c constraints.txt -e '.[spark]'"
_NEEDED = {"duckdb": ("ibis",), "pyspark": ("ibis", "pyspark")}
_DUCKDB_SETTINGS = {
    "preserve_insertion_order": False,
    "partitioned_write_max_open_files": 1000,
    "partitioned_write_flush_threshold": 2_000_000,  # rows; partitions get row groups of a useful size
}
_SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # names of features may differ in case only
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def connection_config(backend: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check that a backend can be used, start Spark's session, and return the configuration of the ibis connection.

    Args:
        backend: ``duckdb`` or ``pyspark``.
        options: for DuckDB its settings, such as ``memory_limit``, ``threads`` and ``temp_directory``; for Spark ``master`` and
            ``settings``, the settings of the session.

    Returns:
        ``backend`` and the arguments of its ibis connection, as kedro-datasets take them.

    Raises:
        InputError: the extra ``spark`` or Java is not installed, or the backend is unknown.
    """
    if backend not in _NEEDED:
        raise InputError(f"connection.backend: found {backend}; use one of {', '.join(_NEEDED)}")
    if missing := [name for name in _NEEDED[backend] if find_spec(name) is None]:
        raise InputError(f"connection.backend: {backend} needs {' and '.join(missing)}; {_EXTRA}")
    if backend == "duckdb":
        if folder := options.get("temp_directory"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        return {"backend": backend, **_DUCKDB_SETTINGS, **options}
    _start_spark(options)
    return {"backend": backend}


def connect(backend: str, options: Mapping[str, Any]) -> Any:
    """Return an ibis connection; see `connection_config`."""
    config = connection_config(backend, options)
    import ibis  # noqa: PLC0415

    return getattr(ibis, config.pop("backend")).connect(**config)


def engine_of(connection: Any, folder: Path, partitions: int) -> Engine:
    """Return the engine of an ibis connection.

    Args:
        connection: result of `connect`.
        folder: empty folder of the stored tables.
        partitions: number of partitions of the users.
    """
    engines: dict[str, type[Engine]] = {"duckdb": DuckDBEngine, "pyspark": SparkEngine}
    return engines[connection.name](connection, folder, partitions)


def _start_spark(options: Mapping[str, Any]) -> None:
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise InputError(
            "connection.backend: pyspark needs Java, but the command java was not found and JAVA_HOME is not set; install Java 17, for "
            "example openjdk-17-jre-headless"
        )
    from pyspark.sql import SparkSession  # noqa: PLC0415

    master = str(options.get("master", "local[*]"))
    if master.startswith("local"):  # otherwise the python3 of PATH, which may be another one
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName("deep-interest").master(master)
    for name, value in (_SPARK_SETTINGS | dict(options.get("settings") or {})).items():
        builder = builder.config(name, value)
    builder.getOrCreate()
