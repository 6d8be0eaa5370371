"""Warnings about times: an incomplete last day, and times that are whole days."""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pandas as pd

from deep_interest.logs.impressions import days_of
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables

_INCOMPLETE = 0.3  # of the median day
_FEWEST_DAYS = 4  # with fewer days there is no usual day
_DAY = 86_400  # seconds
_CLOCK_CHANGES = 2  # times of day that local midnights have in UTC, in summer and in winter


def incomplete_last_day(shown: pd.DataFrame, protocol: ProtocolParameters) -> Iterator[str]:
    """Warn if the last day in use has far fewer impressions than the others: the log may end within it.

    Args:
        shown: impressions.
        protocol: protocol with its days.
    """
    day = days_of(shown, protocol)
    if protocol.last_day is not None:
        day = day[day <= (protocol.last_day - date(1970, 1, 1)).days]
    days, counts = np.unique(day, return_counts=True)
    if len(days) < _FEWEST_DAYS or counts[-1] >= _INCOMPLETE * (usual := np.median(counts[:-1])):
        return
    last, previous = (str(np.datetime64(int(number), "D")) for number in (days[-1], days[-2]))
    yield (
        f"the last day, {last}, has {counts[-1]:,} impressions, the median of the other days is {usual:,.0f}: is it incomplete? It "
        f"belongs to the test set; to leave it out, set protocol.last_day: {previous}"
    )


def whole_days(time: pd.Series, second: int) -> bool:
    """Return whether times are midnights, over at least three days.

    Args:
        time: times of events.
        second: units of time per second.
    """
    values = np.unique(time.to_numpy(np.int64))
    return len(values) > 2 and len(np.unique(values % (_DAY * second))) <= _CLOCK_CHANGES and _span(values) >= 2 * _DAY * second  # fmt: skip


def whole_days_of_impressions(tables: CanonicalTables, second: int) -> Iterator[str]:
    """Warn if behaviours or impressions have times of whole days.

    Args:
        tables: canonical tables with impressions.
        second: units of time per second.
    """
    if not whole_days(tables.behaviors["time"], second):
        if whole_days(tables.shown["time"], second):
            yield "the times of the impressions are whole days: no history contains behaviours of the impression's own day"
    elif whole_days(tables.shown["time"], second):
        yield (
            "the times of behaviors and impressions are whole days: no history contains behaviours of the impression's own day, and the "
            "order of behaviours within a day is random"
        )
    else:
        yield (
            "the times of the behaviors are whole days, those of the impressions are not: a behaviour counts from midnight on, so "
            "histories contain what the user did later on the day of the impression"
        )


def whole_days_of_behaviors(
    time: pd.Series, second: int, protocol: ProtocolParameters, tied: float
) -> Iterator[str]:
    """Warn if behaviours on the same day are in random order and part of each other's history.

    Args:
        time: times of the behaviours.
        second: units of time per second.
        protocol: ``next_item``, ``last_item`` or ``rated``.
        tied: share of samples whose history contains behaviours at the sample's own time.
    """
    if tied and protocol.ties == "before" and whole_days(time, second):
        yield (
            f"the times of the behaviors are whole days: within a day their order is random, and {tied:.1%} of the samples have "
            "behaviours of their own day in the history; protocol.ties: exclude leaves those out"
        )


def _span(values: np.ndarray) -> int:
    return int(values[-1] - values[0])
