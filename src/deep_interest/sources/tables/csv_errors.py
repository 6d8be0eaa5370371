"""Messages about lines of a CSV file that DuckDB cannot read."""

import re

import duckdb

_LINE = re.compile(
    r"CSV Error on Line: (?P<line>\d+)\nOriginal Line: (?P<text>.*?)\s*\n"
    r"(Expected Number of Columns: (?P<expected>\d+) Found: (?P<found>\d+)|Value with unterminated quote)",
    re.DOTALL,
)
_FILE = re.compile(r"^  file = (.*)$", re.MULTILINE)
_SHOWN_CHARACTERS = 120
_SKIP = "set reading.on_bad_line to 'skip' to skip and count malformed lines"


def csv_message(error: duckdb.Error, display_name: str) -> str:
    """Describe an error of DuckDB's CSV reader: file, line, what was found, what to do.

    Args:
        error: error of a query that reads CSV files.
        display_name: name of the files, for an error that does not name one.
    """
    text = str(error)
    file, line = _FILE.search(text), _LINE.search(text)
    name = file[1] if file else display_name
    if "unicode" in text.lower():
        return not_utf8(name, " ".join(text.split())[:200])
    if line is None:
        reason = " ".join(text.split("LINE 1:", maxsplit=1)[0].split("Possible fixes", maxsplit=1)[0].split())
        return f"{name}: not readable as csv ({reason[:400]}). Fix the line, or {_SKIP}."
    shown = (
        line["text"]
        if len(line["text"]) <= _SHOWN_CHARACTERS
        else f"{line['text'][: _SHOWN_CHARACTERS - 1]}…"
    )
    where = f"{name}, line {line['line']}"
    if line["expected"] is None:
        return (
            f"{where}: a quote is not closed, or has text after it, in {shown!r}. If quotes are ordinary characters in this file, set "
            "quote: none, which keeps every row; otherwise fix the line."
        )
    found = line["found"] if int(line["found"]) < int(line["expected"]) else f"more than {line['expected']}"
    return (
        f"{where}: expected {line['expected']} values, found {found}, in {shown!r}. Fix the line, or check names, delimiter and quote if "
        f"many lines are alike; or {_SKIP}."
    )


def not_utf8(file: str, reason: str) -> str:
    """Return the message about a file that is not encoded in UTF-8 and declares no encoding."""
    return (
        f"{file}: the file is not encoded in UTF-8 ({reason}). Declare its encoding, for example encoding: cp1252 for files from "
        "Windows, or latin-1."
    )
