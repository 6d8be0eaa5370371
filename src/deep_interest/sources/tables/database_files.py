"""Tables and views of DuckDB files."""

from pathlib import Path

import duckdb

from deep_interest.errors import InputError
from deep_interest.sources.database import connect, restrict_to_files
from deep_interest.sources.sql import local_path, quote_identifier, quote_literal
from deep_interest.sources.tables.declaration import TableFiles


def attach(connection: duckdb.DuckDBPyConnection, file: Path, index: int) -> None:
    """Attach a DuckDB file, read only, as ``database{index}``."""
    try:
        connection.execute(f"ATTACH {quote_literal(local_path(file))} AS database{index} (READ_ONLY)")
    except duckdb.Error as error:
        raise InputError(f"{file}: not readable as a DuckDB database ({error})") from error


def qualified_name(database: str, table: TableFiles) -> str:
    """Return the quoted name of the declared table in an attached database."""
    return ".".join([database, *(quote_identifier(part) for part in (table.table or "").split("."))])


def read_database_columns(file: Path, table: TableFiles) -> list[str]:
    """Return the columns of the declared table.

    Raises:
        InputError: the file is not a database, or the table does not exist or is not readable.
    """
    with connect() as connection:
        restrict_to_files(connection, [file])
        attach(connection, file, 0)
        if table.table is None:
            query = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'database0' ORDER BY 1"
            names = [name for (name,) in connection.execute(query).fetchall()]
            raise InputError(f"{file}: set `table` to a table of the database; it has {', '.join(names)}")
        try:
            relation = qualified_name("database0", table)
            return [row[0] for row in connection.execute(f"DESCRIBE {relation}").fetchall()]
        except duckdb.PermissionException as error:
            raise external_access_error(f"{file}, {table.table}", error) from error
        except duckdb.Error as error:
            raise InputError(
                f"{file}: table or view {table.table} not found or not readable ({' '.join(str(error).split())[:200]})"
            ) from error


def external_access_error(display_name: str, error: duckdb.Error) -> InputError:
    """Return the error about a view that reads other files."""
    return InputError(
        f"{display_name}: the view reads something outside the database ({' '.join(str(error).split())[:200]}), which "
        "is not allowed. Store its rows in the database (CREATE TABLE … AS FROM the view), or declare the files "
        "themselves."
    )
