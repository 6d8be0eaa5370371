"""DuckDB connections that can read the given files and nothing else on the machine."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from deep_interest.sources.sql import exact_path, local_path, quote_literal

_CONFIG = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,  # secrets that the user stores for other programs
    "python_enable_replacements": False,  # a view must not read a variable of this process
}


@contextmanager
def connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory database that spills to a temporary folder, loads no extensions and keeps times in UTC."""
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(config={**_CONFIG, "temp_directory": folder}) as connection,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def restrict_to_files(connection: duckdb.DuckDBPyConnection, files: Iterable[Path]) -> None:
    """Restrict a connection to reading ``files``; the restriction cannot be lifted.

    A view in a user's database is foreign SQL: without the restriction it could read any file on the machine, open
    other databases or change settings.

    Args:
        connection: connection to restrict; it can still attach databases among ``files``.
        files: existing files.

    Raises:
        InputError: `exact_path` cannot escape one of the paths.
    """
    paths = {
        name for file in files for name in (local_path(file), exact_path(file), f"{local_path(file)}.wal")
    }
    connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, sorted(paths)))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
