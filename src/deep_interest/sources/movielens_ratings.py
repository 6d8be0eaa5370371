"""Read the ratings of every MovieLens layout, streamed from the .zip file into Arrow columns.

20 million rows need neither a temporary file nor a Python object per value. Only if a row is invalid are the lines
read a second time, one by one, to find the first invalid line.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from deep_interest.errors import InputError
from deep_interest.sources.archive import Archive
from deep_interest.sources.raw_files import bounded_lines

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_FIELDS = {  # column of the header -> (canonical column, type, range)
    "userId": ("user", pa.int32(), _INT32),
    "movieId": ("item", pa.int32(), _INT32),
    "timestamp": ("time", pa.int64(), _INT64),
    "rating": ("rating", pa.float32(), (0.5, 5)),
}
_NO_HEADER = ("userId", "movieId", "rating", "timestamp")


@dataclass(frozen=True)
class Layout:
    """File names and format of a MovieLens layout.

    Attributes:
        ratings: name of the file of ratings.
        movies: name of the file of movies.
        separator: separator between fields.
        header: whether the first line of the ratings contains the column names.
    """

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
    """Return the layout whose file of ratings is in ``archive``.

    Raises:
        InputError: the archive contains no ratings.
    """
    for layout in LAYOUTS:
        if layout.ratings in archive:
            return layout
    expected = ", ".join(layout.ratings for layout in LAYOUTS)
    raise InputError(
        f"{archive.path}: not a MovieLens dataset: found none of {expected} in it. Download it again."
    )


def read_ratings(archive: Archive, layout: Layout) -> pa.Table:
    """Return ``user``, ``item`` (int32), ``time`` (int64, seconds) and ``rating`` (float32) in the order of the file.

    Raises:
        InputError: the file is damaged or empty, or a line is not a valid rating; the message has the line number and
            the value.
    """
    columns = _read_header(archive, layout) if layout.header else _NO_HEADER
    try:
        with archive.open(layout.ratings) as stream:
            table = _parse(stream, layout, columns)
        invalid_rows = _count_invalid(table)
    except pa.ArrowInvalid:
        table, invalid_rows = None, 1
    if invalid_rows:
        archive.verify(layout.ratings)  # a damaged file looks like an invalid line
        raise InputError(_explain(archive, layout, columns, invalid_rows))
    if table.num_rows == 0:
        raise InputError(f"{archive.path}: {layout.ratings} contains no ratings. Download it again.")
    return table


def _read_header(archive: Archive, layout: Layout) -> tuple[str, ...]:
    with archive.open(layout.ratings) as stream:
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


def _parse(stream: IO[bytes], layout: Layout, columns: tuple[str, ...]) -> pa.Table:
    types = {name: type_ for name, (_, type_, _) in _FIELDS.items()}
    names = list(columns)
    if (
        layout.separator == "::"
    ):  # pyarrow splits at ':', which adds an empty column after each column but the last
        names = [name for column in columns for name in (column, f"{column}:")][:-1]
        types |= {f"{column}:": pa.null() for column in columns[:-1]}
    table = pa_csv.read_csv(
        stream,
        read_options=pa_csv.ReadOptions(column_names=names, skip_rows=int(layout.header), block_size=4 << 20),
        parse_options=pa_csv.ParseOptions(delimiter=layout.separator[0]),
        convert_options=pa_csv.ConvertOptions(column_types=types, include_columns=list(types)),
    )
    return table.select(list(_FIELDS)).rename_columns([name for name, _, _ in _FIELDS.values()])


def _count_invalid(table: pa.Table) -> int:
    low, high = _FIELDS["rating"][2]
    in_range = pc.and_(pc.greater_equal(table["rating"], low), pc.less_equal(table["rating"], high))
    valid = in_range
    for column in ("user", "item", "time"):
        if table[column].null_count:
            valid = pc.and_(valid, pc.is_valid(table[column]))
    return table.num_rows - (pc.sum(pc.fill_null(valid, False)).as_py() or 0)


def _explain(archive: Archive, layout: Layout, columns: tuple[str, ...], invalid_rows: int) -> str:
    with archive.open(layout.ratings) as stream:
        lines = bounded_lines(stream, f"{archive.path}, {layout.ratings}")
        first_error = _first_invalid_line(lines, layout, columns)
    total = f" ({invalid_rows} such lines)" if invalid_rows > 1 else ""
    return (
        f"{archive.path}, {layout.ratings}, {first_error}{total}. Fix the lines, or download the file again."
    )


def _first_invalid_line(lines: Iterable[tuple[int, bytes]], layout: Layout, columns: tuple[str, ...]) -> str:
    for line_number, line in lines:
        if line.isspace() or (layout.header and line_number == 1):
            continue
        values = line.decode("utf-8", "replace").rstrip("\r\n").split(layout.separator)
        if len(values) != len(columns):
            separator = repr(layout.separator)
            return f"line {line_number}: found {len(values)} fields, expected {len(columns)} split by {separator}"
        for name, value in zip(columns, values, strict=True):
            if name in _FIELDS and not _is_valid(name, value):
                _, type_, (low, high) = _FIELDS[name]
                return (
                    f"line {line_number}, column {name}: found {value!r}, expected {type_} in {low}..{high}"
                )
    return "no ratings found"


def _is_valid(name: str, value: str) -> bool:
    _, type_, (low, high) = _FIELDS[name]
    try:
        return low <= (float(value) if pa.types.is_floating(type_) else int(value)) <= high
    except ValueError:
        return False
