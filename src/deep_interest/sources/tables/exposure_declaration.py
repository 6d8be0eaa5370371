"""Pydantic models of the ``source`` block of an A/B test: the log of exposures and the pre-period."""

from typing import Any

from pydantic import Field, model_validator

from deep_interest.sources.tables.column_declarations import Strict, Strings, TimeColumn, TimeZone, Values
from deep_interest.sources.tables.declaration import TableFiles


class ClickColumn(Strict):
    """Column with the clicks of a row; a plain column name is short for ``{column: NAME}``.

    Attributes:
        column: column name in the file: a number of clicks, or true and false.
        positive: values that count as one click; every other value, including an empty one, counts as none.
    """

    column: str
    positive: Values | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value


class PrePeriodFiles(TableFiles):
    """Files with what users saw and did before the test.

    Attributes:
        user: column of the user id; several columns are joined into one id.
        impressions: column with the number of impressions of the row; if omitted, each row is one impression.
        clicks: clicks of the row.
        revenue: column with the revenue of the row, a number of at least 0, where an empty value is 0; if omitted, there are no
            metrics of revenue.
    """

    user: Strings = ("user",)
    impressions: str | None = None
    clicks: ClickColumn = ClickColumn(column="clicks")
    revenue: str | None = None

    @property
    def quantity_columns(self) -> list[tuple[str, str]]:
        """Keys and names of the columns of quantities."""
        columns = [
            ("impressions", self.impressions),
            ("clicks", self.clicks.column),
            ("revenue", self.revenue),
        ]
        return [(key, column) for key, column in columns if column is not None]


class ExposureFiles(PrePeriodFiles):
    """Files with the exposures of a test: a row for each impression, or sums by user and time.

    Attributes:
        arm: column with the name of the arm.
        time: time of the row.
        day: column with the date (2022-04-25 or 20220425) of the row; replaces ``time``.
    """

    arm: str = "arm"
    time: TimeColumn = TimeColumn(column="time")
    day: str | None = None

    @model_validator(mode="after")
    def _validate_time(self) -> "ExposureFiles":
        if self.day and "time" in self.model_fields_set:
            raise ValueError("set time (a time) or day (a date), not both")
        return self


class ExposureSource(Strict):
    """Declaration of the log of an A/B test.

    Attributes:
        folder: folder of the files, relative to the root of the raw files; defaults to the key of the test.
        time_zone: time zone in which days begin at midnight, and the zone of times without one.
        exposures: what the users of each arm saw and did.
        pre_period: what users saw and did before the test, in a table of its own.
    """

    folder: str | None = None
    time_zone: TimeZone = "UTC"
    exposures: ExposureFiles = Field()
    pre_period: PrePeriodFiles | None = None

    @model_validator(mode="after")
    def _validate_revenue(self) -> "ExposureSource":
        before = self.pre_period
        if before is not None and before.revenue and not self.exposures.revenue:
            raise ValueError(
                "pre_period.revenue has no effect without exposures.revenue; set both, or remove it"
            )
        return self
