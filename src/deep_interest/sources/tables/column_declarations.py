"""Pydantic models of the columns and characters in a ``source`` block: times, labels, delimiters, quotes, numbers."""

import codecs
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Scalar = str | int | float | bool
_CHARACTERS = {
    "tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", "point": ".", "apostrophe": "'",
}  # fmt: skip
_VALIDATION_NAMES = ("validation", "valid", "val", "dev")
_LONGEST_DELIMITER = 4  # characters; the limit of DuckDB


class Strict(BaseModel):
    """Frozen model without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LogReading(Strict):
    """How the log of an A/B test or of an off-policy evaluation is read.

    Attributes:
        on_bad_line: treatment of a row that is malformed or invalid: ``error`` raises an error, ``skip`` skips and counts the row.
    """

    on_bad_line: Literal["error", "skip"] = "error"


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


def _validate_encoding(name: str) -> str:
    try:
        "".encode(name)  # a LookupError also for codecs of other things than text
        return codecs.lookup(name).name
    except LookupError as error:
        raise ValueError(
            f"{name!r} is not an encoding; expected a name such as utf-8, cp1252 (Windows), latin-1 or utf-16"
        ) from error


def _named_character(value: Any) -> Any:
    return _CHARACTERS.get(value, value) if isinstance(value, str) else value


def _validate_delimiter(value: str) -> str:
    if not 1 <= len(value) <= _LONGEST_DELIMITER or set(value) & set('"\r\n') or not value.isascii():
        raise ValueError(
            f"{value!r} is not a delimiter; expected one to four characters, such as '::', or a name: tab, comma, semicolon, pipe or "
            "space"
        )
    return value


def _quote(value: Any) -> Any:
    """Accept ``none`` and ``off``, which YAML reads as false, for files without quoting."""
    return "" if value in (False, None, "none", "off") else value


def _validate_quote(value: str) -> str:
    if len(value) > 1 or value in ("\r", "\n", "\t") or not value.isascii():
        raise ValueError(
            f"{value!r} is not a quote; expected one character, or none if quotes are ordinary characters"
        )
    return value


def _validate_mark(value: str, *, marks: str, expected: str) -> str:
    if len(value) != 1 or value not in marks:
        raise ValueError(f"{value!r} is not a mark in numbers; expected {expected}")
    return value


Strings = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
TimeZone = Annotated[str, AfterValidator(_validate_time_zone)]
Encoding = Annotated[str, AfterValidator(_validate_encoding)]
Delimiter = Annotated[str, BeforeValidator(_named_character), AfterValidator(_validate_delimiter)]
Quote = Annotated[str, BeforeValidator(_quote), AfterValidator(_validate_quote)]
DecimalMark = Annotated[
    str,
    BeforeValidator(_named_character),
    AfterValidator(partial(_validate_mark, marks=".,", expected="point or comma")),
]
ThousandsSeparator = Annotated[
    str,
    BeforeValidator(_named_character),
    AfterValidator(partial(_validate_mark, marks=".,' ", expected="point, comma, space or apostrophe")),
]


def database_strings(values: Sequence[Scalar] | None) -> list[str]:
    """Return values of the configuration as DuckDB writes them when cast to VARCHAR."""
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values or ()]


class TimeColumn(Strict):
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


class LabelColumn(Strict):
    """Column that says whether an impression was clicked; a plain column name is short for ``{column: NAME}``.

    Attributes:
        column: column name in the file.
        separator: in a list of items with their labels, what separates the two (``N55689-1``); replaces ``column``.
        clicked: column with the list of the clicked items of a list of items; replaces ``column``.
        positive: values that count as a click; every other value, including an empty one, counts as no click. If
            omitted, the labels must be 0 and 1 or true and false.
        at_least: smallest number that counts as a click, such as a rating; replaces ``positive``.
    """

    column: str | None = None
    separator: str | None = Field(None, min_length=1)
    clicked: str | None = None
    positive: Values | None = None
    at_least: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _validate_combination(self) -> "LabelColumn":
        if sum(value is not None for value in (self.column, self.separator, self.clicked)) != 1:
            raise ValueError(
                "set column (the label has a column of its own), separator (it follows each item of the list, as in "
                "N55689-1) or clicked (a column lists the clicked items), one of them"
            )
        if self.positive is not None and self.at_least is not None:
            raise ValueError("set positive (values) or at_least (a number), not both")
        if self.clicked and (self.positive is not None or self.at_least is not None):
            raise ValueError(
                "clicked lists the clicked items, so there are no values to compare with positive or at_least"
            )
        return self

    @property
    def in_list(self) -> bool:
        """Whether each item of a list has a label of its own."""
        return self.column is None


class HistoryColumns(Strict):
    """Columns with the history of each row: the behaviours before it, oldest first; a name is short for ``{item: NAME}``.

    Attributes:
        item: column with the list of item ids; for composite ids, one list for each part.
        separator: separator between the values of a list.
        columns: ``{feature: column}`` of the behaviours' own features, each a list as long as that of the items.
    """

    item: Strings
    separator: str = Field(" ", min_length=1)
    columns: dict[str, str] = Field({})

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"item": value} if isinstance(value, str | list | tuple) else value


class SplitColumn(Strict):
    """To which split each row belongs: by the values of a column, or by its file.

    Attributes:
        column: column with the name of the split; if omitted, the names are those of files.
        train, validation, test: values of the column (by default these names, or ``valid``, ``val`` or ``dev``), or names or
            patterns of files. Without validation rows every epoch is run.
    """

    column: str | None = None
    train: Values = ("train",)
    validation: Values | None = None
    test: Values = ("test",)

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _validate_names(self) -> "SplitColumn":
        if self.column is None and not {"train", "test"} <= self.model_fields_set:
            raise ValueError(
                "set column (a column names the split of each row), or train and test to the names of their files"
            )
        names = [str(name) for names in self.names.values() for name in names]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{', '.join(sorted(repeated))} is named for two splits; a row has one split")
        return self

    @property
    def names(self) -> dict[str, tuple[Scalar, ...]]:
        """``{split: names}``."""
        validation = self.validation
        if validation is None:
            validation = _VALIDATION_NAMES if self.column else ()
        return {"train": self.train, "validation": validation, "test": self.test}
