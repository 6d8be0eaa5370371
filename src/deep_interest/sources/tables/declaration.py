"""Pydantic models of a ``source`` block in ``parameters/datasets.yml``: which files and columns a dataset reads."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from deep_interest.sources.tables.column_declarations import (
    DecimalMark,
    Delimiter,
    Encoding,
    HistoryColumns,
    LabelColumn,
    Quote,
    SplitColumn,
    Strict,
    Strings,
    ThousandsSeparator,
    TimeColumn,
    TimeZone,
    Values,
)


class TableFiles(Strict):
    """Files of one table, and the rows to keep.

    Attributes:
        files: a file, a glob pattern (``visits_*.csv.gz``), a folder (read recursively), or a list of these. Partition
            folders (``day=2022-04-25/``) add a column of that name. Supported: CSV, Parquet, JSON lines (each also
            with ``.gz``) and DuckDB databases.
        format: file format; inferred from the file name extension if omitted.
        table: table or view of a database, ``visits`` or ``schema.visits``.
        names: column names of a CSV file without a header.
        delimiter: delimiter of a CSV file, up to four characters or a name; detected if omitted.
        quote: character that encloses values in a CSV file, and is doubled within them; ``none`` if quotes are ordinary
            characters.
        encoding: encoding of a CSV or JSON file.
        decimal: decimal mark of numbers written as strings, ``point`` or ``comma``.
        thousands: separator between groups of three digits in such numbers: ``point``, ``comma``, ``space`` or
            ``apostrophe``; None if they have none.
        columns: ``{feature: column}`` for features whose column has another name.
        where: ``{column: values}``; only rows with one of these values are kept, for example the event types that
            count as behaviours. The other rows are counted.
        optional: whether the table may be missing.
    """

    files: Strings
    format: Literal["csv", "parquet", "json", "duckdb"] | None = None
    table: str | None = None
    names: Strings | None = None
    delimiter: Delimiter | None = None
    quote: Quote = '"'
    encoding: Encoding = "utf-8"
    decimal: DecimalMark = "."
    thousands: ThousandsSeparator | None = None
    columns: dict[str, str] = Field({})
    where: dict[str, Values] = Field({})
    optional: bool = False

    @model_validator(mode="after")
    def _validate_characters(self) -> "TableFiles":
        if self.thousands == self.decimal:
            raise ValueError(
                f"decimal and thousands are both {self.decimal!r}; set the other one as well, for example decimal: "
                "comma with thousands: point"
            )
        if self.delimiter is not None and self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}; they must differ")
        return self


class BehaviorFiles(TableFiles):
    """Files of behaviours, with one behaviour per row or a list of behaviours per row.

    Attributes:
        user: column of the user id; several columns are joined into one id.
        item: column of the item id; several columns are joined into one id.
        time: time of the behaviour; for a sequence, the time of its last behaviour (each earlier one gets a time one
            unit before the next), or a list with the time of each.
        order: ``file`` for a log without times: the rows are in the order of time, file after file in alphabetical
            order; replaces ``time``.
        rating: column of the rating, a number, for the protocol ``rated``.
        sequence: column with a list of item ids, oldest first; replaces ``item``.
        history: column with the items of all behaviours before ``time``, oldest first, which a log of impressions
            repeats in every row of the user: the list in the user's earliest row counts, and its last item is placed one
            unit before the time of that row; replaces ``item``.
        separator: separator between the ids of a list.
        day: column with the date (2022-04-25 or 20220425) to use as the day; defaults to the date of ``time``.
    """

    user: Strings = ("user",)
    item: Strings | None = None
    time: TimeColumn = TimeColumn(column="time")
    order: Literal["file"] | None = None
    rating: str | None = None
    sequence: str | None = None
    history: str | None = None
    separator: str = Field(" ", min_length=1)
    day: str | None = None

    @model_validator(mode="after")
    def _validate_combination(self) -> "BehaviorFiles":
        if sum(value is not None for value in (self.item, self.sequence, self.history)) > 1:
            raise ValueError(
                "set item (one behaviour per row), sequence (a user's behaviours in one row) or history (those before the row's "
                "time, repeated in every row), not both"
            )
        if self.order and (given := {"time", "day", "history"} & self.model_fields_set):
            raise ValueError(
                f"order: file declares a log without times, but {' and '.join(sorted(given))} is set as well; remove one of them"
            )
        if self.rating and self.list_column:
            raise ValueError("rating needs one behaviour per row (item); a list of items has no ratings")
        return self

    @property
    def item_columns(self) -> tuple[str, ...]:
        """Columns of the item id where each row is one behaviour."""
        return self.item or ("item",)

    @property
    def list_column(self) -> str | None:
        """Column with a list of items, if each row has several behaviours."""
        return self.sequence or self.history


class EntityFiles(TableFiles):
    """Files with one row per item or user.

    Attributes:
        repeated: what to do with a repeated id: ``error``, or keep its ``first`` row and count the others.
    """

    repeated: Literal["error", "first"] = "error"


class ItemFiles(EntityFiles):
    """Files of items, with one item per row or a list of items per row.

    Attributes:
        item: column of the item id; several columns are joined into one id.
        sequence: column with a list of item ids, such as the history of a row; for composite ids, one list for each part.
            Replaces ``item``; ``columns`` then are lists of the same lengths.
        separator: separator between the values of a list.
    """

    item: Strings = ("item",)
    sequence: Strings | None = None
    separator: str = Field(" ", min_length=1)

    @model_validator(mode="after")
    def _validate_combination(self) -> "ItemFiles":
        if self.sequence and "item" in self.model_fields_set:
            raise ValueError("set item (one item per row) or sequence (several in one row), not both")
        if self.sequence and self.repeated == "error":
            raise ValueError("a list of items names an item more than once; set repeated: first")
        return self


class UserFiles(EntityFiles):
    """Files of user profiles.

    Attributes:
        user: column of the user id; several columns are joined into one id.
    """

    user: Strings = ("user",)


class ImpressionFiles(TableFiles):
    """Files of impressions: items shown to users, clicked or not, one per row or a list per row.

    Attributes:
        user: column of the user id; several columns are joined into one id.
        item: column of the item id; several columns are joined into one id.
        time: time of the impression.
        order: ``file`` for rows without times, whose histories are given; replaces ``time``.
        label: whether the impression was clicked.
        sequence: column with a list of items that were shown together; replaces ``item``.
        separator: separator between the items of a list.
        day: column with the date (2022-04-25 or 20220425) to use as the day; defaults to the date of ``time``.
        request: column with the id of the request: impressions of a user with the same id were shown together. Each list of
            ``sequence`` is a request by default.
        history: the history of each row, as the files give it; replaces the behaviours before ``time``.
        split: the split of each row, for the protocol ``given``.
        weight: column of numbers that weight the row in the training loss, such as inverse propensities.
        click_time: time of the click, empty without one; retraining then knows which clicks had arrived on which night.
    """

    user: Strings = ("user",)
    item: Strings = ("item",)
    time: TimeColumn = TimeColumn(column="time")
    order: Literal["file"] | None = None
    label: LabelColumn = LabelColumn(column="label")
    sequence: str | None = None
    separator: str = Field(" ", min_length=1)
    day: str | None = None
    request: Strings | None = None
    history: HistoryColumns | None = None
    split: SplitColumn | None = None
    weight: str | None = None
    click_time: TimeColumn | None = None

    @model_validator(mode="after")
    def _validate_combination(self) -> "ImpressionFiles":
        if self.click_time and (self.order or self.sequence):
            key = "order: file" if self.order else "sequence"
            raise ValueError(
                f"click_time needs one impression per row with its time, but {key} is set as well; remove one of them"
            )
        if self.order and (given := {"time", "day"} & self.model_fields_set):
            raise ValueError(
                f"order: file declares rows without times, but {' and '.join(sorted(given))} is set as well; remove one of them"
            )
        if self.order and not self.history:
            raise ValueError(
                "order: file declares rows without times, so the behaviours before a row are unknown; set history to the column "
                "that lists them, or declare the time"
            )
        if self.sequence and "item" in self.model_fields_set:
            raise ValueError("set item (one impression per row) or sequence (several in one row), not both")
        if self.sequence and "label" not in self.model_fields_set:
            raise ValueError(
                "a list of impressions needs its labels: set label to {separator: '-'} if a label follows each item, as in "
                "N55689-1, to {clicked: COLUMN} if a column lists the clicked items, or to the column of a label for the whole list"
            )
        if self.label.in_list and not self.sequence:
            key = "separator" if self.label.separator else "clicked"
            raise ValueError(
                f"label.{key} belongs to a list of items with their labels; set sequence to the column of the list"
            )
        return self

    @property
    def list_column(self) -> str | None:
        """Column with a list of items, if each row has several impressions."""
        return self.sequence


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, dict | BaseModel) else value


class Source(Strict):
    """Declaration of a user's own tables.

    Attributes:
        folder: folder of the files, relative to the root of the raw files; defaults to the dataset's key.
        page: web page of the data, for the message about a missing file.
        time_zone: time zone in which days begin at midnight, and the zone of times without one.
        behaviors, items, users, impressions: one block each, or a list of blocks whose rows are concatenated. Without
            ``impressions`` the protocol derives samples from the behaviours; without ``items`` the id is the only
            item feature; without ``users`` there are no profile features.
        clicks_as_behaviors: whether clicked impressions are behaviours as well; by default only if no ``behaviors`` are
            declared.
    """

    folder: str | None = None
    page: str | None = None
    time_zone: TimeZone = "UTC"
    behaviors: Annotated[tuple[BehaviorFiles, ...], BeforeValidator(_as_list)] = ()
    items: Annotated[tuple[ItemFiles, ...], BeforeValidator(_as_list)] = ()
    users: Annotated[tuple[UserFiles, ...], BeforeValidator(_as_list)] = ()
    impressions: Annotated[tuple[ImpressionFiles, ...], BeforeValidator(_as_list)] = ()
    clicks_as_behaviors: bool | None = None

    @model_validator(mode="after")
    def _validate_events(self) -> "Source":
        if not self.behaviors and not self.impressions:
            raise ValueError(
                "declare behaviors (what users did), impressions (what they were shown), or both"
            )
        if self.clicks_as_behaviors and not self.impressions:
            raise ValueError(
                "clicks_as_behaviors: true adds the clicked impressions, but no impressions are declared; declare them, or remove "
                "clicks_as_behaviors"
            )
        if self.clicks_as_behaviors is False and not self.behaviors and not self.has_histories:
            raise ValueError(
                "clicks_as_behaviors: false leaves no behaviours; declare behaviors or remove it"
            )
        self._validate_given()
        ordered = [block.order is not None for block in self.behaviors]
        if any(ordered) and not all(ordered):
            raise ValueError("behaviors: either all blocks have times or all have order: file")
        if any(ordered) and self.impressions:
            raise ValueError(
                "behaviors.order: file declares a log without times, so the behaviours before an impression are unknown; declare "
                "their time, or remove impressions and use the protocol next_item, last_item or rated"
            )
        return self

    def _validate_given(self) -> None:
        """Check that all blocks of impressions give the same, and histories come from one place."""
        for key in ("order", "history", "split", "request", "weight", "click_time"):
            if len({getattr(block, key) is None for block in self.impressions}) > 1:
                raise ValueError(f"impressions: either all blocks declare {key} or none does")
        if self.has_histories and (self.behaviors or self.clicks_as_behaviors):
            key = "behaviors" if self.behaviors else "clicks_as_behaviors"
            raise ValueError(
                f"impressions.history gives the history of each row, so {key} has no effect; remove one of them"
            )

    @property
    def has_times(self) -> bool:
        """Whether the events have times; otherwise the rows of the files are in order."""
        blocks: tuple[BehaviorFiles | ImpressionFiles, ...] = (*self.behaviors, *self.impressions)
        return not any(block.order for block in blocks)

    @property
    def has_histories(self) -> bool:
        """Whether the impressions give their histories."""
        return any(block.history for block in self.impressions)

    @property
    def has_splits(self) -> bool:
        """Whether the impressions give their splits."""
        return any(block.split for block in self.impressions)

    @property
    def has_click_times(self) -> bool:
        """Whether the impressions say when they were clicked."""
        return any(block.click_time for block in self.impressions)

    @property
    def has_requests(self) -> bool:
        """Whether the impressions say which of them were shown together."""
        return bool(self.impressions) and all(block.request or block.sequence for block in self.impressions)

    @property
    def uses_clicks(self) -> bool:
        """Whether clicked impressions are behaviours."""
        if self.clicks_as_behaviors is None:
            return not self.behaviors and not self.has_histories
        return self.clicks_as_behaviors
