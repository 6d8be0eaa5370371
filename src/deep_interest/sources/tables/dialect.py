"""The dialect of a CSV file: its delimiter, decided on a sample of lines, its quote and its header."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deep_interest.errors import InputError
from deep_interest.sources.raw_files import is_gzip, text_lines
from deep_interest.sources.sql import quote_literal
from deep_interest.sources.tables.csv_errors import not_utf8
from deep_interest.sources.tables.declaration import TableFiles

CSV_LINE_LIMIT = 2_000_000  # bytes; DuckDB may silently drop a line that is longer than its own limit
_DELIMITERS = ",\t;|"
_RARE_DELIMITERS = ("::", " ")  # in the order of preference
_UNIT_SEPARATOR = "\x1f"
_SAMPLED_LINES, _SAMPLED_CHARACTERS = 200, 1_000_000
_SHOWN_CHARACTERS = 80  # of a line in a message
_ATOMIC_SUFFIXES = (".inter", ".item", ".user")  # RecBole's atomic files
_ATOMIC_TYPE = re.compile(r":(token|float|token_seq|float_seq)$")
_SIGNATURES = {
    b"PAR1": "Parquet; end the file's name in .parquet",
    b"\xff\xfe": "UTF-16; set encoding: utf-16",
    b"\xfe\xff": "UTF-16; set encoding: utf-16",
    b"PK\x03\x04": "a .zip or a spreadsheet; write the table as CSV",
    b"\x1f\x8b": "gzip; end the file's name in .gz",
}


@dataclass(frozen=True)
class Dialect:
    """How the values of a CSV file are separated and quoted.

    Attributes:
        delimiter: one to four characters between two values.
        quote: character around a value; empty if quotes are ordinary characters.
    """

    delimiter: str
    quote: str

    @property
    def sql(self) -> str:
        """Options of DuckDB's ``read_csv``."""
        quote = quote_literal(self.quote)
        return f"delim={quote_literal(self.delimiter)}, quote={quote}, escape={quote}"

    def records(self, lines: Sequence[str]) -> list[list[str]]:
        """Split lines into records of values; a quoted value may contain line breaks.

        Raises:
            csv.Error: a value has more than 128 KiB, or a carriage return is within a line.
        """
        text, delimiter = "".join(lines), self.delimiter
        if len(delimiter) > 1:
            text, delimiter = text.replace(delimiter, _UNIT_SEPARATOR), _UNIT_SEPARATOR
        stream = io.StringIO(text, newline="")
        if not self.quote:
            return list(csv.reader(stream, delimiter=delimiter, quoting=csv.QUOTE_NONE))
        return list(csv.reader(stream, delimiter=delimiter, quotechar=self.quote))


def read_header(file: Path, table: TableFiles) -> tuple[list[str], Dialect]:
    """Return the column names of a CSV file and its dialect; without their types in RecBole's atomic files.

    Raises:
        InputError: the file has another format, its header is malformed or has the same name twice, or no sampled line has
            as many values as there are names.
    """
    if not is_gzip(file):
        _reject_other_formats(file)
    lines = _sampled_lines(file)
    if "\ufffd" in "".join(lines[:1]) and not table.names:
        raise InputError(not_utf8(str(file), "the header has other characters"))
    dialect = detect_dialect(file, table, lines)
    _check_widths(file, table, dialect, lines)
    if table.names:
        return list(table.names), dialect
    try:
        header = (dialect.records(lines[:1]) or [[]])[0]
    except csv.Error as error:
        raise InputError(f"{file}, line 1: not a valid CSV header ({error})") from error
    if _has_suffix(file, _ATOMIC_SUFFIXES):
        header = [_ATOMIC_TYPE.sub("", name) for name in header]
    header = [name or f"column {index} without a name" for index, name in enumerate(header, start=1)]
    duplicates = [name for name in header if header.count(name) > 1]
    if duplicates:
        raise InputError(
            f"{file}, line 1: column {duplicates[0]!r} occurs twice in the header; rename one of them, or set names if "
            "the file has no header"
        )
    return header, dialect


def detect_dialect(file: Path, table: TableFiles, lines: Sequence[str]) -> Dialect:
    """Choose the delimiter that splits most of the sampled lines into as many values as the header, at least two.

    ``::`` or a blank is the delimiter only if it fits all lines and no other one fits any.

    Args:
        file: the file; tab is the delimiter of ``.tsv`` and of RecBole's atomic files whose first line contains one.
        table: declaration with the quote, and perhaps the delimiter and the names of the columns.
        lines: first lines of the file.
    """
    if table.delimiter:
        return Dialect(table.delimiter, table.quote)
    if _has_suffix(file, (".tsv", *_ATOMIC_SUFFIXES)) and "\t" in (lines or [""])[0]:
        return Dialect("\t", table.quote)
    candidates = [Dialect(delimiter, table.quote) for delimiter in _DELIMITERS if delimiter != table.quote]
    names = len(table.names or ())
    best = max(candidates, key=lambda dialect: _agreement(dialect, lines, names))
    if not lines or _agreement(best, lines, names)[0]:
        return best
    others = [Dialect(delimiter, table.quote) for delimiter in _RARE_DELIMITERS]
    return next((dialect for dialect in others if _agreement(dialect, lines, names)[0] == len(lines)), best)


def _has_suffix(file: Path, suffixes: tuple[str, ...]) -> bool:
    return file.name.removesuffix(".gz").lower().endswith(suffixes)


def _agreement(dialect: Dialect, lines: Sequence[str], names: int) -> tuple[int, int]:
    """Return the number of records with as many values as expected, and that number of values."""
    try:
        widths = [len(record) for record in dialect.records(lines)]
    except csv.Error:
        return 0, 0
    expected = names or (widths or [0])[0]
    return (widths.count(expected), expected) if expected > 1 or names else (0, 0)


def _check_widths(file: Path, table: TableFiles, dialect: Dialect, lines: Sequence[str]) -> None:
    """Raise an error if no sampled line has as many values as the names, or as the header above it."""
    names = len(table.names or ())
    if names and not table.delimiter and not _agreement(dialect, lines, names)[0]:
        dialect = detect_dialect(file, table.model_copy(update={"names": None}), lines)
    try:
        records = [record for record in dialect.records(lines) if record]
    except csv.Error:
        return
    rows = records if names else records[1:]
    expected = names or len((records or [[]])[0])
    widths = Counter(map(len, rows))
    if not widths or expected in widths:
        return
    usual = widths.most_common(1)[0][0]
    example = next(row for row in rows if len(row) == usual)
    detected = detect_dialect(file, table.model_copy(update={"delimiter": None}), lines)
    what = f"names has {expected} name(s)" if names else f"the header has {expected} value(s)"
    found = (
        f"{file}: {what}, but the lines have {usual} value(s) separated by {dialect.delimiter!r}, for example "
        f"{_shortened(dialect.delimiter.join(example))!r}"
    )
    fitting, values = _agreement(detected, lines, names)
    if detected.delimiter != dialect.delimiter and fitting > 1 and values > 1:
        raise InputError(f"{found}; {detected.delimiter!r} fits: set delimiter to it, or remove delimiter")
    advice = "names has to name every column of the file, in order; check delimiter and quote as well"
    if listed := names_as_list(table):
        advice = listed
    if names > 1 == usual and " " in example[0].strip():
        advice = (
            "for values separated by blanks set delimiter: space; if a line is a user followed by items, put a tab after the user (for "
            "example sed 's/ /\\t/' FILE), and set sequence to the second name"
        )
    if not names:
        advice = "check delimiter and quote, and that the header is the first line of the file"
    raise InputError(f"{found}; {advice}")


def names_as_list(table: TableFiles) -> str:
    """Return advice for several names that are declared as one, such as ``names: user, item``; empty otherwise."""
    parts = re.split(r"[,;\s]+", table.names[0]) if table.names and len(table.names) == 1 else []
    return f"write names as a list: [{', '.join(parts)}]" if len(parts) > 1 else ""


def _shortened(line: str) -> str:
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"


def _sampled_lines(file: Path) -> list[str]:
    """Return the first lines, without blank ones."""
    lines, characters = [], 0
    for number, (_, line) in enumerate(islice(text_lines(file, CSV_LINE_LIMIT), _SAMPLED_LINES)):
        lines.append(line.decode("utf-8-sig" if number == 0 else "utf-8", errors="replace"))
        characters += len(line)
        if characters > _SAMPLED_CHARACTERS:
            break
    return lines


def _reject_other_formats(file: Path) -> None:
    """Raise an error for a file of another format, which DuckDB would read as a CSV with strange columns."""
    with file.open("rb") as stream:
        first_bytes = stream.read(4)
    for signature, description in _SIGNATURES.items():
        if first_bytes.startswith(signature):
            raise InputError(f"{file}: expected CSV in UTF-8, found {description}")
