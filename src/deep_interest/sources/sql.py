"""Names, values and file names as DuckDB SQL: everything that a user or a file supplies passes through here."""

import re
from pathlib import Path

from deep_interest.errors import InputError

_GLOB = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"~|[^/]*:")  # DuckDB expands "~" and reads "file:" as a scheme at the start of a path


def quoted(name: str) -> str:
    """Return a column, table or schema name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def local_path(file: Path) -> str:
    """Return a file's path so that DuckDB takes it for a local one: ``~x`` and ``file:x`` become ``./~x``, ``./file:x``."""
    path = str(file)
    return f"./{path}" if _SCHEME.match(path) else path


def exact_path(file: Path) -> str:
    """Return a file's path so that DuckDB's table functions read exactly this file.

    They take every path for a glob pattern: ``x[1].csv`` alone would read ``x1.csv``. A glob character is escaped by
    a class of its own (``[[]``). A path with a backslash *and* a glob character cannot be written as a pattern,
    because DuckDB's patterns take the backslash for a folder separator.

    Args:
        file: an existing file.

    Raises:
        InputError: the path contains a backslash and one of ``* ? [``.
    """
    path = local_path(file)
    if "\\" in path and _GLOB.search(path):
        raise InputError(
            f"{file}: the path contains a backslash and one of the characters * ? [, which DuckDB cannot read together; "
            "rename the file or folder"
        )
    return _GLOB.sub(lambda found: f"[{found[0]}]", path)
