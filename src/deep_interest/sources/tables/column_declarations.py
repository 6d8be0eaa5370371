"""Pydantic models of the columns and characters in a ``source`` block: times, labels, delimiters, quotes, numbers."""

import codecs
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Scalar = str | int | float | bool
_CHARACTERS = {
    "tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", "point": ".", "apostrophe": "'",
}  # fmt: skip
_LONGEST_DELIMITER = 4  # characters; the limit of DuckDB


class Strict(BaseModel):
    """Frozen model without unknown keys."""

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
        positive: values that count as a click; every other value, including an empty one, counts as no click. If
            omitted, the labels must be 0 and 1 or true and false.
    """

    column: str | None = None
    separator: str | None = Field(None, min_length=1)
    positive: Values | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _validate_column_or_separator(self) -> "LabelColumn":
        if (self.column is None) == (self.separator is None):
            raise ValueError(
                "set column (the label has a column of its own) or separator (it follows each item of the list, as in "
                "N55689-1), one of them"
            )
        return self
