"""The days of impressions: which are used, and to which split each belongs."""

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_interest.engines.engine import Engine
from deep_interest.engines.ordered_log import days_of
from deep_interest.errors import InputError
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import TEST, TRAIN, VALIDATION

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Days:
    """The days of each split: training days from ``first``, validation days, test days until ``last``."""

    first: int
    first_validation: int
    first_test: int
    last: int


def day_column(impressions: "ir.Table", protocol: ProtocolParameters) -> Any:
    """Return an expression of the day of each impression: from the source if it has days, otherwise from the time."""
    if "day" in impressions.columns:
        return impressions["day"].cast("int64")
    return days_of(impressions["time"], protocol.calendar)


def days_in_use(engine: Engine, protocol: ProtocolParameters) -> tuple[Days, dict[str, int]]:
    """Return the days of the splits, and the number of impressions of other days by reason.

    Raises:
        InputError: there are too few days.
    """
    impressions = engine.stored("impressions")
    by_day = engine.collect(impressions.group_by("day").aggregate(rows=impressions.count()))
    order = np.argsort(by_day["day"].to_numpy())
    day, rows = by_day["day"].to_numpy()[order], by_day["rows"].to_numpy()[order]
    left_out = {}
    if protocol.last_day is not None:
        late = day > (protocol.last_day - date(1970, 1, 1)).days
        left_out[f"impressions after protocol.last_day ({protocol.last_day})"] = int(rows[late].sum())
        day, rows = day[~late], rows[~late]
    held_out = protocol.validation_days + protocol.test_days
    if protocol.train_days is not None:
        early = len(day) - min(len(day), protocol.train_days + held_out)
        reason = f"impressions before the training days (protocol.train_days: {protocol.train_days})"
        left_out[reason] = int(rows[:early].sum())
        day = day[early:]
    if len(day) <= held_out:
        raise InputError(
            f"impressions.time: found {len(day)} distinct days, but {protocol.validation_days} validation and {protocol.test_days} "
            "test days need at least one training day before them; provide more days, or check the unit of the times"
        )
    days = Days(int(day[0]), int(day[-held_out]), int(day[-protocol.test_days]), int(day[-1]))
    return days, {reason: count for reason, count in left_out.items() if count}


def split_by_day(impressions: "ir.Table", days: Days) -> "ir.Table":
    """Return the impressions of the days in use with ``split``, an int8 index into SPLITS."""
    import ibis  # noqa: PLC0415

    day = impressions["day"]
    used = impressions.filter((day >= days.first) & (day <= days.last))
    split = ibis.cases(
        (used["day"] >= days.first_test, TEST),
        (used["day"] >= days.first_validation, VALIDATION),
        else_=TRAIN,
    )
    return used.mutate(split=split.cast("int8"))
