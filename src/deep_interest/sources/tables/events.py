"""Behaviours and impressions of declared tables as SQL."""

from collections.abc import Sequence
from dataclasses import dataclass

from deep_interest.logs.encoding import FeatureColumns
from deep_interest.logs.tables import TRUE_PROBABILITY
from deep_interest.sources.sql import literal, quoted
from deep_interest.sources.tables.checks import Checks
from deep_interest.sources.tables.columns import Checked, Ids, Part
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles, LabelColumn
from deep_interest.sources.tables.features import select_features
from deep_interest.sources.tables.times import TIME_FEATURES, day_of, local_time, time_value


@dataclass(frozen=True)
class EventForm:
    """What all events of a source have in common.

    Attributes:
        users, items: how they are named.
        zone: where days begin at midnight.
        unit: ticks of a time in a second.
    """

    users: Ids
    items: Ids
    zone: str
    unit: int


def select_events(
    part: Part, parts: Sequence[Part], form: EventForm, features: FeatureColumns, checks: Checks
) -> str:
    """The SELECT that makes canonical behaviours or impressions of a part.

    Args:
        part: one of the table's.
        parts: all of the table's.
        form: of all events.
        features: which columns are context features, and how.
        checks: of the reading.

    Raises:
        InputError: a row has no proper id, time, label or day.
    """
    block = part.block
    assert isinstance(block, BehaviorFiles | ImpressionFiles)
    time = Checked(
        "time",
        block.time.column,
        time_value(checks.connection, part, block.time, form.zone, form.unit),
        f"a time like {block.time.format}" if block.time.format else "a time",
    )
    checked = [
        form.users.checked("user", part, (block.user,)), form.items.checked("item", part, part.item_columns), time,
    ]  # fmt: skip
    if isinstance(block, ImpressionFiles):
        wanted = "0 or 1 (or name under label.positive the values that count as a click)"
        checked.append(Checked("label", block.label.column, _label(block.label), wanted))
    if block.day:
        checked.append(
            Checked("day", block.day, day_of(part, block.day), "a date like 2022-04-25 or 20220425")
        )
    whole = checks.require(part, checked)
    columns = [f"{column.value} AS {column.name}" for column in checked]
    if not block.day:
        columns.append(f"{local_time('day', time.value, form.unit, form.zone)} AS day")
    if isinstance(block, ImpressionFiles):
        columns += select_features(checks.connection, part, parts, features)
        columns += [
            f"{local_time(name, time.value, form.unit, form.zone)} AS {quoted(name)}"
            for name in features.context
            if name in TIME_FEATURES and name not in part.features
        ]
        if TRUE_PROBABILITY in part.types:
            columns.append(f"CAST({TRUE_PROBABILITY} AS DOUBLE) AS {TRUE_PROBABILITY}")
    return f"SELECT {', '.join(columns)} FROM {part.name} WHERE {whole}"


def positive_texts(label: LabelColumn) -> list[str]:
    """The values that count as a click, as the database writes them."""
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in label.positive or ()]


def _label(label: LabelColumn) -> str:
    """SQL of the label, 0 or 1; NULL where it is neither."""
    text = f"CAST({quoted(label.column)} AS VARCHAR)"
    if label.positive is not None:
        listed = ", ".join(literal(value) for value in positive_texts(label))
        return f"CAST(coalesce({text} IN ({listed}), false) AS TINYINT)"
    return f"CAST(CASE WHEN lower({text}) IN ('1', '1.0', 'true') THEN 1 WHEN lower({text}) IN ('0', '0.0', 'false') THEN 0 END AS TINYINT)"
