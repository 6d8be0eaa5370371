"""DuckDB connections that can read the given files and nothing else on the machine."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.sql import exact_path, local_path, quote_literal

_CONFIG = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,  # secrets that the user stores for other programs
    "python_enable_replacements": False,  # a view must not read a variable of this process
}
_PARTITIONED_WRITES = {
    "partitioned_write_max_open_files": 1000,
    "partitioned_write_flush_threshold": 2_000_000,  # rows; partitions get row groups of a useful size
}


@contextmanager
def connect(
    workspace: Path | None = None, memory_limit: str | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that spills to a temporary folder, loads no extensions and keeps times in UTC.

    Args:
        workspace: existing folder for the tables, which are then compressed on disk; in memory if None.
        memory_limit: memory of the database, such as ``4GB``; 80 % of the machine's if None.

    Raises:
        InputError: the limit is not a size.
    """
    with tempfile.TemporaryDirectory(dir=workspace) as folder:
        database = ":memory:" if workspace is None else str(Path(folder) / "tables.duckdb")
        with duckdb.connect(database, config={**_CONFIG, "temp_directory": folder}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for setting, value in _PARTITIONED_WRITES.items():
                connection.execute(f"SET {setting} = {value}")
            if memory_limit is not None:
                _limit_memory(connection, memory_limit)
            yield connection


def _limit_memory(connection: duckdb.DuckDBPyConnection, limit: str) -> None:
    try:
        connection.execute(f"SET memory_limit = {quote_literal(limit)}")
    except duckdb.Error as error:
        raise InputError(f"ingest.memory_limit: found {limit!r}; expected a size such as 4GB") from error


def restrict_to_files(
    connection: duckdb.DuckDBPyConnection, files: Iterable[Path], workspace: Path | None = None
) -> None:
    """Restrict a connection to reading ``files``; the restriction cannot be lifted.

    A view in a user's database is foreign SQL: without the restriction it could read any file on the machine, open
    other databases or change settings.

    Args:
        connection: connection to restrict; it can still attach databases among ``files``.
        files: existing files.
        workspace: folder in which the connection may read and write files; None for no other files.

    Raises:
        InputError: `exact_path` cannot escape one of the paths.
    """
    paths = {
        name for file in files for name in (local_path(file), exact_path(file), f"{local_path(file)}.wal")
    }
    connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, sorted(paths)))}]")
    if workspace is not None:
        connection.execute(f"SET allowed_directories = [{quote_literal(str(workspace.absolute()))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
