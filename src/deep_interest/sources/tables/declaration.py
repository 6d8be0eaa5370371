"""Pydantic models of a ``source`` block in ``parameters/datasets.yml``: which files and columns a dataset reads."""

from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Scalar = str | int | float | bool


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float | bool) else value


def _validate_time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(
            f"{name!r} is not a time zone; expected a name such as Europe/Berlin or UTC"
        ) from error
    return name


def _validate_time_format(pattern: str) -> str:
    try:
        datetime(2001, 2, 3, 4, 5, 6).strftime(pattern)
    except ValueError as error:
        raise ValueError(
            f"{pattern!r} is not a time format ({error}); expected a format such as %d.%m.%Y %H:%M"
        ) from error
    return pattern


Strings = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
TimeZone = Annotated[str, AfterValidator(_validate_time_zone)]


class TimeColumn(_Strict):
    """Column with the time of an event; a plain column name is short for ``{column: NAME}``.

    Attributes:
        column: column name in the file.
        unit: unit of numeric times since 1970; defaults to seconds.
        format: ``strptime`` format of times written as strings; defaults to ISO 8601.
        zone: time zone of strings without a UTC offset; defaults to the source's ``time_zone``.
    """

    column: str
    unit: Literal["seconds", "milliseconds", "microseconds"] | None = None
    format: Annotated[str, AfterValidator(_validate_time_format)] | None = None
    zone: TimeZone | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _validate_unit_or_format(self) -> "TimeColumn":
        if self.unit and (self.format or self.zone):
            raise ValueError(
                "unit applies to numeric times, format and zone apply to times written as strings: set unit or "
                "format/zone, not both (source.time_zone sets the midnight at which days begin)"
            )
        return self


class LabelColumn(_Strict):
    """Column that says whether an impression was clicked; a plain column name is short for ``{column: NAME}``.

    Attributes:
        column: column name in the file.
        positive: values that count as a click; every other value, including an empty one, counts as no click. If
            omitted, the column must contain 0 and 1 or true and false.
    """

    column: str
    positive: Values | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value


class TableFiles(_Strict):
    """Files of one table, and the rows to keep.

    Attributes:
        files: a file, a glob pattern (``visits_*.csv.gz``), a folder (read recursively), or a list of these. Partition
            folders (``day=2022-04-25/``) add a column of that name. Supported: CSV, Parquet, JSON lines (each also
            with ``.gz``) and DuckDB databases.
        format: file format; inferred from the file name extension if omitted.
        table: table or view of a database, ``visits`` or ``schema.visits``.
        names: column names of a CSV file without a header.
        delimiter: delimiter of a CSV file; detected if omitted.
        columns: ``{feature: column}`` for features whose column has another name.
        where: ``{column: values}``; only rows with one of these values are kept, for example the event types that
            count as behaviours. The other rows are counted.
        optional: whether the table may be missing.
    """

    files: Strings
    format: Literal["csv", "parquet", "json", "duckdb"] | None = None
    table: str | None = None
    names: Strings | None = None
    delimiter: str | None = Field(None, min_length=1, max_length=1)
    columns: dict[str, str] = {}
    where: dict[str, Values] = {}
    optional: bool = False


class BehaviorFiles(TableFiles):
    """Files of behaviours, with one behaviour per row or a sequence of behaviours per row.

    Attributes:
        user: column of the user id.
        item: column of the item id; several columns are joined into one id.
        time: time of the behaviour; for a sequence, the time of its last behaviour (each earlier one gets a time one
            unit before the next).
        sequence: column with a list of item ids, oldest first; replaces ``item``.
        separator: separator between the ids of a sequence.
        day: column with the date (2022-04-25 or 20220425) to use as the day; defaults to the date of ``time``.
    """

    user: str = "user"
    item: Strings | None = None
    time: TimeColumn = TimeColumn(column="time")
    sequence: str | None = None
    separator: str = Field(" ", min_length=1)
    day: str | None = None

    @model_validator(mode="after")
    def _validate_item_or_sequence(self) -> "BehaviorFiles":
        if self.item and self.sequence:
            raise ValueError(
                "set item (one behaviour per row) or sequence (a user's behaviours in one row), not both"
            )
        return self

    @property
    def item_columns(self) -> tuple[str, ...]:
        """Columns of the item id where each row is one behaviour."""
        return self.item or ("item",)


class EntityFiles(TableFiles):
    """Files with one row per item or user.

    Attributes:
        repeated: what to do with a repeated id: ``error``, or keep its ``first`` row and count the others.
    """

    repeated: Literal["error", "first"] = "error"


class ItemFiles(EntityFiles):
    """Files of items.

    Attributes:
        item: column of the item id; several columns are joined into one id.
    """

    item: Strings = ("item",)


class UserFiles(EntityFiles):
    """Files of user profiles.

    Attributes:
        user: column of the user id.
    """

    user: str = "user"


class ImpressionFiles(TableFiles):
    """Files of impressions: items shown to users, clicked or not.

    Attributes:
        user: column of the user id.
        item: column of the item id; several columns are joined into one id.
        time: time of the impression.
        label: whether the impression was clicked.
        day: column with the date (2022-04-25 or 20220425) to use as the day; defaults to the date of ``time``.
    """

    user: str = "user"
    item: Strings = ("item",)
    time: TimeColumn = TimeColumn(column="time")
    label: LabelColumn = LabelColumn(column="label")
    day: str | None = None


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict | BaseModel) else value


class Source(_Strict):
    """Declaration of a user's own tables.

    Attributes:
        folder: folder of the files, relative to the root of the raw files; defaults to the dataset's key.
        page: web page of the data, for the message about a missing file.
        time_zone: time zone in which days begin at midnight, and the zone of times without one.
        behaviors, items, users, impressions: one block each, or a list of blocks whose rows are concatenated. Without
            ``impressions`` the protocol derives samples from the behaviours; without ``items`` the id is the only
            item feature; without ``users`` there are no profile features.
    """

    folder: str | None = None
    page: str | None = None
    time_zone: TimeZone = "UTC"
    behaviors: Annotated[tuple[BehaviorFiles, ...], BeforeValidator(_as_list), Field(min_length=1)]
    items: Annotated[tuple[ItemFiles, ...], BeforeValidator(_as_list)] = ()
    users: Annotated[tuple[UserFiles, ...], BeforeValidator(_as_list)] = ()
    impressions: Annotated[tuple[ImpressionFiles, ...], BeforeValidator(_as_list)] = ()
