"""The ratings of every MovieLens layout, streamed out of the .zip into columns by pyarrow.

20 million rows need neither a temporary file nor an object per cell. Only when something is wrong are the lines
read a second time, one by one, to say where.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from deep_interest.errors import InputError
from deep_interest.sources.archive import Archive
from deep_interest.sources.raw_files import bounded_lines

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_FIELDS = {  # the publisher's name in a header -> (ours, type, range)
    "userId": ("user", pa.int32(), _INT32),
    "movieId": ("item", pa.int32(), _INT32),
    "timestamp": ("time", pa.int64(), _INT64),
    "rating": ("rating", pa.float32(), (0.5, 5)),
}
_NO_HEADER = ("userId", "movieId", "rating", "timestamp")


@dataclass(frozen=True)
class Layout:
    """One layout's file names, and whether the first line of the ratings names the columns."""

    ratings: str
    movies: str
    separator: str
    header: bool = False


LAYOUTS = (
    Layout("ratings.csv", "movies.csv", ",", header=True),
    Layout("ratings.dat", "movies.dat", "::"),
    Layout("u.data", "u.item", "\t"),
)


def find_layout(archive: Archive) -> Layout:
    """Return the layout whose ratings are in ``archive``, or raise ``InputError``."""
    for layout in LAYOUTS:
        if layout.ratings in archive:
            return layout
    expected = ", ".join(layout.ratings for layout in LAYOUTS)
    raise InputError(f"{archive.path}: not a MovieLens set: found none of {expected} in it. Fetch it again.")


def read_ratings(archive: Archive, layout: Layout) -> pa.Table:
    """Return ``user``, ``item`` (int32), ``time`` (int64, seconds) and ``rating`` (float32) in the file's order.

    Raises:
        InputError: for a damaged file; for a line that is no rating, with the line's number and what it holds.
    """
    columns = _header(archive, layout) if layout.header else _NO_HEADER
    try:
        with archive.member(layout.ratings) as stream:
            table = _parse(stream, layout, columns)
        bad_rows = _count_bad(table)
    except pa.ArrowInvalid:
        table, bad_rows = None, 1
    if bad_rows:
        archive.verify(layout.ratings)  # a damaged file first shows as a bad line
        raise InputError(_explain(archive, layout, columns, bad_rows))
    if table.num_rows == 0:
        raise InputError(f"{archive.path}: {layout.ratings} holds no rating. Fetch it again.")
    return table


def _header(archive: Archive, layout: Layout) -> tuple[str, ...]:
    with archive.member(layout.ratings) as stream:
        line = next((line for _, line in bounded_lines(stream, f"{archive.path}, {layout.ratings}")), b"")
    columns = tuple(line.decode("utf-8-sig", "replace").strip().split(layout.separator))
    missing = [name for name in _FIELDS if name not in columns]
    if missing:
        archive.verify(layout.ratings)
        raise InputError(
            f"{archive.path}, {layout.ratings}, line 1: found the columns {', '.join(columns) or '(none)'}; "
            f"{', '.join(missing)} missing. Expected a header with {', '.join(_FIELDS)}."
        )
    return columns


def _parse(stream: BinaryIO, layout: Layout, columns: tuple[str, ...]) -> pa.Table:
    types = {name: type_ for name, (_, type_, _) in _FIELDS.items()}
    names = list(columns)
    if layout.separator == "::":  # one ':' too many for pyarrow: an empty column after each but the last
        names = [name for column in columns for name in (column, f"{column}:")][:-1]
        types |= {f"{column}:": pa.null() for column in columns[:-1]}
    table = pa_csv.read_csv(
        stream,
        read_options=pa_csv.ReadOptions(column_names=names, skip_rows=int(layout.header), block_size=4 << 20),
        parse_options=pa_csv.ParseOptions(delimiter=layout.separator[0]),
        convert_options=pa_csv.ConvertOptions(column_types=types, include_columns=list(types)),
    )
    return table.select(list(_FIELDS)).rename_columns([ours for ours, _, _ in _FIELDS.values()])


def _count_bad(table: pa.Table) -> int:
    low, high = _FIELDS["rating"][2]
    in_range = pc.and_(pc.greater_equal(table["rating"], low), pc.less_equal(table["rating"], high))
    good = in_range
    for column in ("user", "item", "time"):
        if table[column].null_count:
            good = pc.and_(good, pc.is_valid(table[column]))
    return table.num_rows - (pc.sum(pc.fill_null(good, False)).as_py() or 0)


def _explain(archive: Archive, layout: Layout, columns: tuple[str, ...], bad_rows: int) -> str:
    with archive.member(layout.ratings) as stream:
        lines = bounded_lines(stream, f"{archive.path}, {layout.ratings}")
        where = _first_bad_line(lines, layout, columns)
    more = f" ({bad_rows} such lines)" if bad_rows > 1 else ""
    return f"{archive.path}, {layout.ratings}, {where}{more}. Mend the lines, or fetch the file again."


def _first_bad_line(lines: Iterable[tuple[int, bytes]], layout: Layout, columns: tuple[str, ...]) -> str:
    for number, line in lines:
        if line.isspace() or (layout.header and number == 1):
            continue
        values = line.decode("utf-8", "replace").rstrip("\r\n").split(layout.separator)
        if len(values) != len(columns):
            return f"line {number}: found {len(values)} fields, expected {len(columns)} split by {layout.separator!r}"
        for name, value in zip(columns, values, strict=True):
            if name in _FIELDS and not _fits(name, value):
                _, type_, (low, high) = _FIELDS[name]
                return f"line {number}, column {name}: found {value!r}, expected {type_} in {low}..{high}"
    return "found no columns of ratings"


def _fits(name: str, value: str) -> bool:
    _, type_, (low, high) = _FIELDS[name]
    try:
        return low <= (float(value) if pa.types.is_floating(type_) else int(value)) <= high
    except ValueError:
        return False
