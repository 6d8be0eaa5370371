"""Advice for messages about a declaration that does not fit its files."""

import difflib
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import duckdb

from deep_interest.sources.sql import quote_identifier, quote_literal
from deep_interest.sources.tables.declaration import TableFiles
from deep_interest.sources.tables.dialect import names_as_list

_DATES = (
    "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y%m%d", "%d.%m.%y", "%m/%d/%y",
    "%d/%m/%y", "%d %b %Y", "%b %d, %Y", "%d-%b-%Y",
)  # fmt: skip
_OTHER_FORMATS = (
    "%a %b %d %Y %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z", "%d/%b/%Y:%H:%M:%S %z", "%Y%m%d_%H%M%S",
)  # fmt: skip
_CLOCKS = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %I:%M %p",
    " %I:%M:%S %p",
    "T%H:%M:%S",
    "T%H:%M",
    ", %H:%M",
    " %H.%M",
    " %H:%M:%S.%f",
)
_SEPARATORS = (" ", ",", ";", "|", "\t", "^")
_LABELS = ("0", "1", "0.0", "1.0", "true", "false")
_MOSTLY = 0.9
_MOST_NAMES = 8  # of files in a message


def missing_column(
    role: str, column: str, block: TableFiles, available: Sequence[str], wanted: Sequence[str]
) -> str:
    """Say what may be wrong if a declared column is not in the files.

    Args:
        role: key of the block that names the column.
        column: name of the missing column.
        block: declaration of the table.
        available: columns of the files.
        wanted: all columns that the block uses.
    """
    is_single = len(available) == 1 < len(wanted)
    hint = names_as_list(block) if is_single else _about_name(role, column, block, available)
    if hint:
        return f"; {hint}"
    is_default = role.split(".", maxsplit=1)[0] not in block.model_fields_set
    if role == "time" and is_default and hasattr(block, "order"):
        return (
            "; set time to the name of its column, or order: file if the rows have no times but are in order"
        )
    if is_single:
        return "; the first line has a single value: check delimiter, names, and that the header is the first line"
    if not block.names and not set(wanted) & set(available):
        return "; if the file has no header, set names"
    return f"; set {role} to the name of its column" if is_default else ""


def _about_name(role: str, column: str, block: TableFiles, available: Sequence[str]) -> str:
    """Recognise a list written as one name, a wrong encoding, a mistyped name, or a feature and its column exchanged."""
    parts = [part.strip() for part in column.split(",")]
    if len(parts) > 1 and set(parts) <= set(available):
        return f"several columns are a list: [{', '.join(parts)}]"
    if hint := names_as_list(block) or _other_encoding(block.encoding, available):
        return hint
    if similar := difflib.get_close_matches(column, available, n=1, cutoff=0.7):
        return (
            f"did you mean {similar[0]!r}?"
            if similar[0] != similar[0].strip()
            else f"did you mean {similar[0]}?"
        )
    if role == "time" and "%" in column:
        return 'a time with a format is written as time: {column: NAME, format: "%d.%m.%Y"}'
    feature = role.removeprefix("columns.")
    if feature != role and feature in available:
        return f"columns names the feature first: {{{column}: {feature}}}"
    return ""


def missing_feature(target: str, feature: str, columns: Sequence[str], *, position: str | None = None) -> str:
    """Say how to declare a feature that no file of a table has.

    Args:
        target: canonical table.
        feature: name of the feature.
        columns: columns of the files; empty if the source has no such table.
        position: column of the slot, which is declared under ``features.position``.
    """
    if target == "impressions" and feature == position:
        return f"name its column, source.impressions.columns: {{{feature}: …}}, or correct features.position"
    key = {"items": "item", "users": "profile", "impressions": "context", "behaviors": "behavior"}[target]
    if not columns:
        return f"declare source.{target}, or remove {feature} from features.{key}"
    names = {column.casefold(): column for column in columns}
    similar = difflib.get_close_matches(feature.casefold(), names, n=1, cutoff=0.6)
    column = names[similar[0]] if similar else "…"
    return f"name its column, source.{target}.columns: {{{feature}: {column}}}, or remove {feature} from features.{key}"


def missing_file(folder: Path, name: str) -> str:
    """Name the files that a folder has instead of a missing one."""
    if not folder.is_dir():
        return f"The folder {folder} does not exist."
    files = sorted(
        str(file.relative_to(folder)) for file in folder.glob("*") if not file.name.startswith(".")
    )
    similar = difflib.get_close_matches(name, files, n=1, cutoff=0.7)
    if similar:
        return f"Did you mean {similar[0]}?"
    more = " …" if len(files) > _MOST_NAMES else ""
    return f"The folder has {', '.join(files[:_MOST_NAMES])}{more}." if files else "The folder is empty."


def _other_encoding(encoding: str, columns: Sequence[str]) -> str:
    """Recognise column names that were decoded with the wrong single-byte encoding."""
    for name in columns:
        if re.search("[\x80-\x9f]", name):
            return f"{name!r} has control characters: the encoding may be cp1252 (Windows), not {encoding}"
        try:
            original = name.encode(encoding).decode("utf-8")
        except (UnicodeError, LookupError):
            continue
        if original != name:
            return f"{name} is {original} in UTF-8: remove encoding"
    return ""


def time_format(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    """Name the time formats that fit every value of a column of strings; empty if there are none."""
    name = quote_identifier(column)
    formats = [*(date + clock for date, clock in product(_DATES, _CLOCKS)), *_OTHER_FORMATS]
    counts = ", ".join(f"count(try_strptime(value, {quote_literal(pattern)}))" for pattern in formats)
    (row,) = connection.execute(
        f"SELECT count(*), {counts} FROM (SELECT DISTINCT CAST({name} AS VARCHAR) AS value FROM {table} "
        f"WHERE {name} IS NOT NULL LIMIT 10000)"
    ).fetchall()
    fitting = [pattern for pattern, count in zip(formats, row[1:], strict=True) if count == row[0] > 0]
    choices = " or ".join(f'"{pattern}"' for pattern in fitting[:2])
    return f"The values fit time: {{column: {column}, format: {choices}}}." if fitting else ""


def list_separator(
    connection: duckdb.DuckDBPyConnection, table: str, column: str, separator: str
) -> str | None:
    """Return another separator that most lists of a column contain; None if the declared one occurs or none does."""
    name = quote_identifier(column)
    occurs = f"SELECT 1 FROM {table} WHERE contains({name}, {quote_literal(separator)}) LIMIT 1"
    if connection.execute(occurs).fetchall():
        return None
    counts = ", ".join(f"count(*) FILTER (contains({name}, {quote_literal(text)}))" for text in _SEPARATORS)
    (row,) = connection.execute(f"SELECT count({name}), {counts} FROM {table}").fetchall()
    rows, *others = row
    return next((text for text, count in zip(_SEPARATORS, others, strict=True) if 2 * count > rows), None)


def label_separator(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    """Name the character that separates items from labels of 0 and 1, if all items have the same one."""
    name = quote_identifier(column)
    rows = connection.execute(
        f"SELECT DISTINCT regexp_extract({name}, '([^A-Za-z0-9])[01]$', 1) FROM {table} WHERE {name} IS NOT NULL LIMIT 2"
    ).fetchall()
    if len(rows) == 1 and rows[0][0]:
        return f"The values fit label: {{separator: {rows[0][0]!r}}}."
    return ""


def label_values(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    """Say how to declare a label whose values are not 0 and 1; empty if most are."""
    name = f"CAST({quote_identifier(column)} AS VARCHAR)"
    counts = connection.execute(
        f"SELECT {name}, count(*) FROM {table} GROUP BY 1 ORDER BY 2 DESC, 1"
    ).fetchall()
    usual = sum(rows for value, rows in counts if value is not None and value.lower() in _LABELS)
    if usual > _MOSTLY * sum(rows for _, rows in counts):
        return ""
    values = ", ".join("no value" if value is None else value for value, _ in counts[:_MOST_NAMES])
    if len(counts) > _MOST_NAMES:
        return (
            f"The column has {len(counts):,} different values ({values} …): check source.impressions.label."
        )
    return f"The column's values are {values}: name those that count as clicks, label: {{column: {column}, positive: …}}."


def list_of_ids(connection: duckdb.DuckDBPyConnection, table: str, column: str) -> str:
    """Say that ids may be lists of ids, if most contain blanks or commas; empty otherwise."""
    name = quote_identifier(column)
    text = f"CAST({name} AS VARCHAR)"
    (row,) = connection.execute(
        f"SELECT count({name}), count(*) FILTER (regexp_matches({text}, '[ ,|;]')), "
        f"first({text}) FILTER (regexp_matches({text}, '[ ,|;]')) FROM {table}"
    ).fetchall()
    ids, lists, example = row
    if 2 * lists <= ids or not example:
        return ""
    short = example if len(example) <= 40 else f"{example[:39]}…"
    return (
        f"If the values are lists of ids, such as {short!r}, set sequence or history instead of item; otherwise fix the file, or set "
        "reading.on_bad_line to 'skip' to skip and count such rows."
    )
