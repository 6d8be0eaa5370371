"""Amazon product data of 2014: reviews as JSON lines, read by DuckDB, and categories from the metadata.

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
from deep_interest.sources.raw_files import plain_parts, require_file, text_lines
from deep_interest.sources.sql import exact_path

# fault codes of _REVIEWS, by the column to blame; 0 is a good line
_REASONS = {
    1: "line is not a review",
    2: "review without reviewerID",
    3: "review without asin",
    4: "review without unixReviewTime",
    5: "overall outside 1..5",
}
_FIELDS = {
    2: ("reviewerID", "the user's id"),
    3: ("asin", "the item's id"),
    4: ("unixReviewTime", "whole seconds since 1970"),
    5: ("overall", "a rating in 1..5"),
}

# With ignore_errors a broken line is a row of NULLs, so that row i is always the file's i-th line that is not blank.
_REVIEWS = """
    WITH review AS (
        SELECT nullif(reviewerID, '') AS user, nullif(asin, '') AS item, unixReviewTime AS stamp, overall,
               try_cast(unixReviewTime AS BIGINT) AS time, try_cast(overall AS FLOAT) AS rating
        FROM read_json($path, format='newline_delimited', ignore_errors=true, compression='uncompressed', columns={
            reviewerID: 'VARCHAR', asin: 'VARCHAR', unixReviewTime: 'VARCHAR', overall: 'VARCHAR'})
    )
    SELECT user, item, time, rating, CAST(CASE
        WHEN user IS NULL AND item IS NULL AND stamp IS NULL AND overall IS NULL THEN 1
        WHEN user IS NULL THEN 2
        WHEN item IS NULL THEN 3
        WHEN time IS NULL THEN 4
        WHEN overall IS NOT NULL AND NOT coalesce(rating BETWEEN 1 AND 5, false) THEN 5
        ELSE 0 END AS UTINYINT) AS fault
    FROM review
"""


def read_amazon(
    reviews: Path, metadata: Path | None = None, *, on_bad_line: Literal["error", "skip"] = "error"
) -> CanonicalTables:
    """Read one category's reviews and the categories of the reviewed items.

    Args:
        reviews: ``reviews_X_5.json.gz`` or unpacked: JSON lines with ``reviewerID``, ``asin``, ``unixReviewTime``
            (seconds) and, where known, ``overall`` (1 to 5 stars).
        metadata: ``meta_X.json.gz`` or unpacked; where None or absent, every item's category is ``unknown``.
        on_bad_line: stop at the first line that is broken, lacks a user, item or time, or rates out of range;
            or leave such lines out and count them in ``left_out``.

    Returns:
        ``behaviors``: ``user`` and ``item`` (str), ``time`` (int64, seconds) and, if any review has one, ``rating``
        (float32), in the file's order. ``items``: the reviewed items and no others, by first appearance, each with
        the last element of its last category list (DIN, section 6.1), ``unknown`` where the metadata have none.

    Raises:
        InputError: for a missing, empty or truncated file, or a bad line under ``on_bad_line="error"``.
    """
    reviews = Path(reviews)
    require_file(reviews)
    table = _query(reviews)
    faults = table["fault"]
    if on_bad_line == "error" and pc.any(pc.not_equal(faults, 0)).as_py():
        raise InputError(_explain_first_fault(reviews, faults))
    table = table.filter(pc.equal(faults, 0)).drop_columns("fault")
    if table.num_rows == 0:
        raise InputError(
            f"{reviews}: no review in the file. Expected JSON lines with reviewerID, asin, unixReviewTime."
        )
    if table["rating"].null_count == table.num_rows:
        table = table.drop_columns("rating")
    items = pc.unique(table["item"]).to_pylist()
    categories, bad_metadata = item_categories(metadata, items, on_bad_line=on_bad_line)
    return CanonicalTables(
        behaviors=table.to_pandas(split_blocks=True, self_destruct=True),
        items=pd.DataFrame({"item": items, "category": categories}),
        left_out=_count_faults(faults) | bad_metadata,
    )


def _query(reviews: Path) -> pa.Table:
    with connect() as connection:
        try:
            parts = [
                connection.sql(_REVIEWS, params={"path": exact_path(part)}).to_arrow_table()
                for part in plain_parts(reviews)
            ]
        except duckdb.Error as error:
            raise InputError(f"{reviews}: not readable as JSON lines ({error}).") from error
    if not parts:
        raise InputError(f"{reviews}: the file is empty. Delete it and fetch it again.")
    return pa.concat_tables(parts)


def _count_faults(faults: pa.ChunkedArray) -> dict[str, int]:
    counts = {row["values"]: row["counts"] for row in pc.value_counts(faults).to_pylist()}
    return {reason: counts[code] for code, reason in _REASONS.items() if code in counts}


def _explain_first_fault(reviews: Path, faults: pa.ChunkedArray) -> str:
    row = pc.index(pc.not_equal(faults, 0), True).as_py()
    number, line = next(entry for i, entry in enumerate(text_lines(reviews)) if i == row)
    try:
        review = json.loads(line.strip())
    except json.JSONDecodeError as error:
        found = f"broken JSON ({error.msg}, character {error.colno})"
        return _bad_line(reviews, f"line {number}", found, "one JSON object a line")
    except RecursionError:
        found = "values nested too deeply"
        return _bad_line(reviews, f"line {number}", found, "one JSON object a line")
    except UnicodeDecodeError:
        return _bad_line(reviews, f"line {number}", "bytes that are not UTF-8", "one JSON object a line")
    fault = faults[row].as_py()
    if fault == 1 or not isinstance(review, dict):
        return _bad_line(
            reviews, f"line {number}", _short(review), "an object with reviewerID, asin, unixReviewTime"
        )
    column, expected = _FIELDS[fault]
    found = _short(review[column]) if column in review else "no such field"
    return _bad_line(reviews, f"line {number}, column {column}", found, expected)


def _bad_line(path: Path, place: str, found: str, expected: str) -> str:
    return (
        f"{path}, {place}: found {found}, expected {expected}. Mend the line, or set on_bad_line to 'skip': "
        "bad lines are then left out and counted."
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
