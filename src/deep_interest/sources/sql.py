"""Identifiers, string literals and file paths as DuckDB SQL; every user-supplied string must pass through here."""

import re
from pathlib import Path

from deep_interest.errors import InputError

_GLOB = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"~|[^/]*:")  # DuckDB expands a leading "~" and treats a leading "file:" as a URL scheme


def quote_identifier(name: str) -> str:
    """Return a column, table or schema name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def local_path(file: Path) -> str:
    """Return a path that DuckDB treats as a local file: ``~x`` becomes ``./~x``, ``file:x`` becomes ``./file:x``."""
    path = str(file)
    return f"./{path}" if _SCHEME.match(path) else path


def exact_path(file: Path) -> str:
    """Return a path that makes DuckDB's table functions read exactly this file.

    DuckDB treats every path as a glob pattern: ``x[1].csv`` would read ``x1.csv``. Each glob character is therefore
    escaped as a character class (``[[]``). A path that contains both a backslash and a glob character cannot be
    escaped, because DuckDB's patterns treat the backslash as a folder separator.

    Args:
        file: an existing file.

    Raises:
        InputError: the path contains a backslash and one of ``* ? [``.
    """
    path = local_path(file)
    if "\\" in path and _GLOB.search(path):
        raise InputError(
            f"{file}: the path contains a backslash and one of the characters * ? [, a combination that DuckDB cannot "
            "read; rename the file or folder"
        )
    return _GLOB.sub(lambda match: f"[{match[0]}]", path)
