"""Read the Amazon product data of 2014: reviews (JSON lines, read by DuckDB) and categories from the metadata.

Source: J. McAuley's 5-core review files and product metadata, the public sets of the DIN and DIEN papers.
"""

import json
from pathlib import Path
from typing import Any, Literal

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deep_interest.errors import InputError
from deep_interest.logs.tables import CanonicalTables
from deep_interest.sources.amazon_metadata import item_categories
from deep_interest.sources.database import connect
from deep_interest.sources.raw_files import decompressed_chunks, require_file, text_lines
from deep_interest.sources.sql import exact_path

# error codes of _REVIEWS, by the invalid column; 0 is a valid line
_REASONS = {
    1: "line is not a review",
    2: "review without reviewerID",
    3: "review without asin",
    4: "review without unixReviewTime",
    5: "overall outside 1..5",
}
_FIELDS = {
    2: ("reviewerID", "a user id"),
    3: ("asin", "an item id"),
    4: ("unixReviewTime", "whole seconds since 1970"),
    5: ("overall", "a rating in 1..5"),
}

# With ignore_errors a malformed line becomes a row of NULLs, so row i is always the i-th non-blank line of the file.
_REVIEWS = """
    WITH review AS (
        SELECT nullif(reviewerID, '') AS user, nullif(asin, '') AS item, unixReviewTime AS time_string, overall,
               try_cast(unixReviewTime AS BIGINT) AS time, try_cast(overall AS FLOAT) AS rating
        FROM read_json($path, format='newline_delimited', ignore_errors=true, compression='uncompressed', columns={
            reviewerID: 'VARCHAR', asin: 'VARCHAR', unixReviewTime: 'VARCHAR', overall: 'VARCHAR'})
    )
    SELECT user, item, time, rating, CAST(CASE
        WHEN user IS NULL AND item IS NULL AND time_string IS NULL AND overall IS NULL THEN 1
        WHEN user IS NULL THEN 2
        WHEN item IS NULL THEN 3
        WHEN time IS NULL THEN 4
        WHEN overall IS NOT NULL AND NOT coalesce(rating BETWEEN 1 AND 5, false) THEN 5
        ELSE 0 END AS UTINYINT) AS error_code
    FROM review
"""


def read_amazon(
    reviews: Path, metadata: Path | None = None, *, on_bad_line: Literal["error", "skip"] = "error"
) -> CanonicalTables:
    """Read one category's reviews and the categories of the reviewed items.

    Args:
        reviews: ``reviews_X_5.json.gz``, or the unpacked file: JSON lines with ``reviewerID``, ``asin``,
            ``unixReviewTime`` (seconds) and optionally ``overall`` (1 to 5 stars).
        metadata: ``meta_X.json.gz``, or the unpacked file; if None or missing, every item's category is ``unknown``.
        on_bad_line: ``error`` to raise at the first line that is malformed, lacks a user, item or time, or has a rating
            out of range; ``skip`` to skip such lines and count them in ``left_out``.

    Returns:
        Canonical tables. ``behaviors``: ``user`` and ``item`` (str), ``time`` (int64, seconds) and, if any review has a
        rating, ``rating`` (float32), in the order of the file. ``items``: the reviewed items in order of first
        appearance, each with the last element of its last category list (DIN, section 6.1), or ``unknown``.

    Raises:
        InputError: a file is missing, empty or truncated, or a line is invalid and ``on_bad_line`` is ``error``.
    """
    reviews = Path(reviews)
    require_file(reviews)
    table = _read_reviews(reviews)
    error_codes = table["error_code"]
    if on_bad_line == "error" and pc.any(pc.not_equal(error_codes, 0)).as_py():
        raise InputError(_explain_first_error(reviews, error_codes))
    table = table.filter(pc.equal(error_codes, 0)).drop_columns("error_code")
    if table.num_rows == 0:
        raise InputError(
            f"{reviews}: the file contains no reviews. Expected JSON lines with reviewerID, asin, unixReviewTime."
        )
    if table["rating"].null_count == table.num_rows:
        table = table.drop_columns("rating")
    items = pc.unique(table["item"]).to_pylist()
    categories, skipped_metadata = item_categories(metadata, items, on_bad_line=on_bad_line)
    return CanonicalTables(
        behaviors=table.to_pandas(split_blocks=True, self_destruct=True),
        items=pd.DataFrame({"item": items, "category": categories}),
        left_out=_count_errors(error_codes) | skipped_metadata,
    )


def _read_reviews(reviews: Path) -> pa.Table:
    with connect() as connection:
        try:
            chunks = [
                connection.sql(_REVIEWS, params={"path": exact_path(chunk)}).to_arrow_table()
                for chunk in decompressed_chunks(reviews)
            ]
        except duckdb.Error as error:
            raise InputError(f"{reviews}: not readable as JSON lines ({error}).") from error
    if not chunks:
        raise InputError(f"{reviews}: the file is empty. Delete it and download it again.")
    return pa.concat_tables(chunks)


def _count_errors(error_codes: pa.ChunkedArray) -> dict[str, int]:
    counts = {row["values"]: row["counts"] for row in pc.value_counts(error_codes).to_pylist()}
    return {reason: counts[code] for code, reason in _REASONS.items() if code in counts}


def _explain_first_error(reviews: Path, error_codes: pa.ChunkedArray) -> str:
    row = pc.index(pc.not_equal(error_codes, 0), True).as_py()
    line_number, line = next(entry for i, entry in enumerate(text_lines(reviews)) if i == row)
    try:
        review = json.loads(line.strip())
    except json.JSONDecodeError as error:
        found = f"malformed JSON ({error.msg}, character {error.colno})"
        return _invalid_line_message(reviews, f"line {line_number}", found, "one JSON object per line")
    except RecursionError:
        found = "values nested too deeply"
        return _invalid_line_message(reviews, f"line {line_number}", found, "one JSON object per line")
    except UnicodeDecodeError:
        return _invalid_line_message(
            reviews, f"line {line_number}", "bytes that are not UTF-8", "one JSON object per line"
        )
    error_code = error_codes[row].as_py()
    if error_code == 1 or not isinstance(review, dict):
        return _invalid_line_message(
            reviews,
            f"line {line_number}",
            _shorten(review),
            "an object with reviewerID, asin, unixReviewTime",
        )
    column, expected = _FIELDS[error_code]
    found = _shorten(review[column]) if column in review else "no such field"
    return _invalid_line_message(reviews, f"line {line_number}, column {column}", found, expected)


def _invalid_line_message(path: Path, location: str, found: str, expected: str) -> str:
    return (
        f"{path}, {location}: found {found}, expected {expected}. Fix the line, or set on_bad_line to 'skip' "
        "to skip and count such lines."
    )


def _shorten(value: Any) -> str:
    string = repr(value)
    return string if len(string) <= 60 else f"{string[:57]}..."
