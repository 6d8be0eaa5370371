"""How a dataset's block in ``parameters/datasets.yml`` declares tables of any layout: which files, which columns."""

from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Scalar = str | int | float | bool


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float | bool) else value


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"{name!r} is no time zone; expected a name like Europe/Berlin or UTC") from error
    return name


def _known_format(pattern: str) -> str:
    try:
        datetime(2001, 2, 3, 4, 5, 6).strftime(pattern)
    except ValueError as error:
        raise ValueError(
            f"{pattern!r} is no time format ({error}); expected one like %d.%m.%Y %H:%M"
        ) from error
    return pattern


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Zone = Annotated[str, AfterValidator(_known_zone)]


class TimeColumn(_Strict):
    """A column with the time of an event; a plain column name stands for ``{column: NAME}``.

    Attributes:
        column: its name in the file.
        unit: of numbers; seconds since 1970 if left out.
        format: of texts, as ``strptime`` has it; ISO 8601 if left out.
        zone: time zone of texts that carry no offset; the source's ``time_zone`` if left out.
    """

    column: str
    unit: Literal["seconds", "milliseconds", "microseconds"] | None = None
    format: Annotated[str, AfterValidator(_known_format)] | None = None
    zone: Zone | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _numbers_or_texts(self) -> "TimeColumn":
        if self.unit and (self.format or self.zone):
            raise ValueError(
                "unit is for numbers, format and zone are for texts: give one or the other (days begin at the "
                "midnight of source.time_zone)"
            )
        return self


class LabelColumn(_Strict):
    """The column that says whether an impression was clicked; a plain column name stands for ``{column: NAME}``.

    Attributes:
        column: its name in the file.
        positive: its values that count as a click, all others (an empty one too) do not; if left out, the column is 0
            or 1, true or false.
    """

    column: str
    positive: Values | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value


class TableFiles(_Strict):
    """Where a table lies and which of its rows count.

    Attributes:
        files: a file, a pattern (``visits_*.csv.gz``), a folder with all below it, or a list of such. Partition folders
            (``day=2022-04-25/``) give a column of that name. CSV, Parquet or JSON lines, ``.gz`` as it is; or a DuckDB database.
        format: if the files' names do not tell it.
        table: of a database, its table or view: ``visits`` or ``schema.visits``.
        names: column names of a CSV without a header line.
        delimiter: of a CSV; found out if left out.
        columns: ``{feature: column}`` for features that are called otherwise in the file.
        where: ``{column: values}``; only rows with one of these values count, such as the action types that are
            behaviours. The others are counted.
        optional: do without the table where there is no such file.
    """

    files: Texts
    format: Literal["csv", "parquet", "json", "duckdb"] | None = None
    table: str | None = None
    names: Texts | None = None
    delimiter: str | None = Field(None, min_length=1, max_length=1)
    columns: dict[str, str] = {}
    where: dict[str, Values] = {}
    optional: bool = False


class BehaviorFiles(TableFiles):
    """Files of behaviours: an action a row, or a user's actions in one row.

    Attributes:
        user, item: columns; several item columns together make one id.
        time: when; of a sequence, when its last action was: those before it get a stamp of one unit less each.
        sequence: instead of ``item``, a column with the ids of many items, oldest first.
        separator: between the ids of a sequence.
        day: a column with the date (2022-04-25 or 20220425) that decides the day; that of the time if left out.
    """

    user: str = "user"
    item: Texts | None = None
    time: TimeColumn = TimeColumn(column="time")
    sequence: str | None = None
    separator: str = Field(" ", min_length=1)
    day: str | None = None

    @model_validator(mode="after")
    def _item_or_sequence(self) -> "BehaviorFiles":
        if self.item and self.sequence:
            raise ValueError("give item (one action a row) or sequence (a user's actions in a row), not both")
        return self

    @property
    def items(self) -> tuple[str, ...]:
        return self.item or ("item",)


class EntityFiles(TableFiles):
    """Files with a row for each item or user.

    Attributes:
        repeated: an id that stands there again is an ``error``, or its ``first`` row counts (and the others are counted).
    """

    repeated: Literal["error", "first"] = "error"


class ItemFiles(EntityFiles):
    """Files of items.

    Attributes:
        item: the id's column; several columns together make one id.
    """

    item: Texts = ("item",)


class UserFiles(EntityFiles):
    """Files of user profiles.

    Attributes:
        user: the id's column.
    """

    user: str = "user"


class ImpressionFiles(TableFiles):
    """Files of impressions: an item shown to a user, clicked or not.

    Attributes:
        user, item: columns; several item columns together make one id.
        time: when it was shown.
        label: whether it was clicked.
        day: a column with the date (2022-04-25 or 20220425) that decides the day; that of the time if left out.
    """

    user: str = "user"
    item: Texts = ("item",)
    time: TimeColumn = TimeColumn(column="time")
    label: LabelColumn = LabelColumn(column="label")
    day: str | None = None


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict | BaseModel) else value


class Source(_Strict):
    """Tables of one's own.

    Attributes:
        folder: where the files lie, below the root of the raw files; the dataset's key if left out.
        page: the data's page, for the message about a missing file.
        time_zone: where days begin at midnight, and the zone of times that carry none.
        behaviors, items, users, impressions: one block each, or a list of blocks whose rows belong together. Without
            ``impressions`` the protocol makes samples of the behaviours; without ``items`` they have no feature but
            their id, without ``users`` there is no profile.
    """

    folder: str | None = None
    page: str | None = None
    time_zone: Zone = "UTC"
    behaviors: Annotated[tuple[BehaviorFiles, ...], BeforeValidator(_as_list), Field(min_length=1)]
    items: Annotated[tuple[ItemFiles, ...], BeforeValidator(_as_list)] = ()
    users: Annotated[tuple[UserFiles, ...], BeforeValidator(_as_list)] = ()
    impressions: Annotated[tuple[ImpressionFiles, ...], BeforeValidator(_as_list)] = ()
