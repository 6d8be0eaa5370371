"""DuckDB connections that read the files they are given, and nothing else of the machine."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from deep_interest.sources.sql import exact_path, literal, local_path

_CONFIG = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,  # those that the user keeps for other programs
    "python_enable_replacements": False,  # a view may not name a variable of this process
}


@contextmanager
def connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory database that spills to a temporary folder and loads no extension.

    Times are in UTC.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(config={**_CONFIG, "temp_directory": folder}) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def confine(connection: duckdb.DuckDBPyConnection, files: Iterable[Path]) -> None:
    """Restrict a connection to reading ``files``, for good.

    A view in a foreign database is SQL by somebody else: without this, it could read any file of the machine, open
    other databases or change the settings.

    Args:
        connection: it can still attach those of ``files`` that are databases.
        files: existing files.

    Raises:
        InputError: `exact_path` cannot name one of them.
    """
    paths = {
        name for file in files for name in (local_path(file), exact_path(file), f"{local_path(file)}.wal")
    }
    connection.execute(f"SET allowed_paths = [{', '.join(map(literal, sorted(paths)))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
