"""Connections to DuckDB and Spark from the configuration, with one message for what is missing."""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from deep_interest.engines.duckdb_engine import DuckDBEngine
from deep_interest.engines.engine import Engine
from deep_interest.engines.spark_engine import SparkEngine
from deep_interest.errors import InputError

_EXTRA = "install the extra: pip install -c constraints.txt 'deep-interest[spark]', in a clone pip install -c constraints.txt -e '.[spark]'"
_SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # names of features may differ in case only
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def connect(backend: str, options: Mapping[str, Any]) -> Any:
    """Return an ibis connection.

    Args:
        backend: ``duckdb`` or ``pyspark``.
        options: for DuckDB its settings, such as ``memory_limit``, ``threads`` and ``temp_directory``; for Spark ``master`` and
            ``settings``, the settings of the session.

    Raises:
        InputError: the extra ``spark`` or Java is not installed, or the backend is unknown.
    """
    connectors = {"duckdb": _connect_duckdb, "pyspark": _connect_spark}
    if backend not in connectors:
        raise InputError(f"connection.backend: found {backend}; use one of {', '.join(connectors)}")
    needed = ["ibis", "pyspark"] if backend == "pyspark" else ["ibis"]
    if missing := [name for name in needed if find_spec(name) is None]:
        raise InputError(f"connection.backend: {backend} needs {' and '.join(missing)}; {_EXTRA}")
    return connectors[backend](dict(options))


def engine_of(connection: Any, folder: Path, partitions: int) -> Engine:
    """Return the engine of an ibis connection.

    Args:
        connection: result of `connect`.
        folder: empty folder of the stored tables.
        partitions: number of partitions of the users.
    """
    engines: dict[str, type[Engine]] = {"duckdb": DuckDBEngine, "pyspark": SparkEngine}
    return engines[connection.name](connection, folder, partitions)


def _connect_duckdb(options: dict[str, Any]) -> Any:
    import ibis  # noqa: PLC0415

    if folder := options.get("temp_directory"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    connection = ibis.duckdb.connect(**options)
    connection.raw_sql("SET TimeZone = 'UTC'")
    connection.raw_sql("SET preserve_insertion_order = false")
    return connection


def _connect_spark(options: dict[str, Any]) -> Any:
    import ibis  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    master = options.get("master", "local[*]")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise InputError(
            "connection.backend: pyspark needs Java, but there is no command java and JAVA_HOME is not set; install Java 17, for "
            "example openjdk-17-jre-headless"
        )
    builder: Any = SparkSession.builder.appName("deep-interest").master(master)
    for name, value in (_SPARK_SETTINGS | dict(options.get("settings", {}))).items():
        builder = builder.config(name, value)
    return ibis.pyspark.connect(builder.getOrCreate())
