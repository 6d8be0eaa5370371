"""The sorted log: where each behaviour is among those of its user, and what is before it."""

from typing import TYPE_CHECKING, Any

from deep_interest.engines.engine import PARTITION, Engine
from deep_interest.logs.hashing import Purpose
from deep_interest.logs.history_ranges import Calendar
from deep_interest.logs.protocol_parameters import ProtocolParameters

if TYPE_CHECKING:
    import ibis.expr.types as ir

_BY_USER = ["user"]


def positions(engine: Engine, behaviors: "ir.Table", protocol: ProtocolParameters) -> "ir.Table":
    """Add the position of each behaviour in the log of its user, and what the protocols need to know about the log.

    Args:
        engine: engine.
        behaviors: encoded behaviours with ``user, item, time, is_target``.
        protocol: protocol, with its seed and its treatment of ties.

    Returns:
        The behaviours with ``position`` (number of earlier behaviours), ``length`` (number of behaviours of the user),
        ``later_targets`` (number of later targets), ``history_end`` and, with ``protocol.history_days``, ``history_begin``.
    """
    import ibis  # noqa: PLC0415

    if "segment" in behaviors.columns:  # given histories are in order
        in_segment = ibis.window(group_by="segment", order_by="time")
        return behaviors.mutate(position=ibis.row_number().over(in_segment).cast("int32"))
    tied = behaviors.mutate(
        tie=engine.hash63(protocol.seed, Purpose.TIE, behaviors["user"], behaviors["item"])
    )
    order = [tied["time"], tied["tie"], tied["item"]]
    sequence = ibis.window(group_by=_BY_USER, order_by=order)
    whole = ibis.window(group_by=_BY_USER)
    log = tied.mutate(
        position=ibis.row_number().over(sequence).cast("int32"),
        length=ibis._.count().over(whole).cast("int64"),
    )
    later, ends = log["length"] - 1 - log["position"], log["position"]
    if protocol.targets:
        until = ibis.cumulative_window(group_by=_BY_USER, order_by=order)
        targets = log["is_target"].cast("int64")
        later = targets.sum().over(whole) - targets.sum().over(until)
    if protocol.ties == "exclude":
        ends = ibis.rank().over(ibis.window(group_by=_BY_USER, order_by=["time"]))
    log = log.mutate(later_targets=later.cast("int64"), history_end=ends.cast("int32")).drop("tie")
    if protocol.history_days is None:
        return log
    days = days_of(log["time"], protocol.calendar)
    log = log.mutate(
        first_day=days - protocol.history_days, log_day=log["day"] if "day" in log.columns else days
    )
    return count_before(log, "first_day", log, "log_day", "history_begin").drop("first_day", "log_day")


def days_of(time: Any, calendar: Calendar) -> Any:
    """Return an expression of the days of times: ``floor((time + offset) / length)``, exactly for int64."""
    shifted = time.cast("int64") + calendar.day_offset
    length = calendar.day_seconds
    remainder = ((shifted % length) + length) % length
    return ((shifted - remainder) / length).round().cast("int64")


def count_before(rows: "ir.Table", key: str, events: "ir.Table", event_key: str, name: str) -> "ir.Table":
    """Count for each row the events of its user whose key is smaller.

    This is a running sum over rows and events in one order, because Spark has no join by inequality that uses the order.

    Args:
        rows: table with ``partition``, ``user`` and ``key``.
        key: int64 column of the rows.
        events: table with ``partition``, ``user`` and ``event_key``.
        event_key: int64 column of the events.
        name: name of the new int32 column.
    """
    import ibis  # noqa: PLC0415

    left = rows.mutate(sort_key=rows[key].cast("int64"), is_event=ibis.literal(0, "int64"))
    right = events.select(
        **{
            column: events[column] if column in (PARTITION, *_BY_USER) else ibis.null(left[column].type())
            for column in rows.columns
        },
        sort_key=events[event_key].cast("int64"),
        is_event=ibis.literal(1, "int64"),
    )
    both = left.union(right)
    until = ibis.cumulative_window(group_by=_BY_USER, order_by=["sort_key", "is_event"])
    both = both.mutate(**{name: both["is_event"].sum().over(until).cast("int32")})
    return both.filter(both["is_event"] == 0).drop("sort_key", "is_event")
