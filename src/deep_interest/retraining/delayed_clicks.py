"""Labels as they were known on a night, and training rows whose click may still come.

A click has not arrived if its time is not before the night. To train on such rows as if they were negatives makes a model predict too
little. There are two remedies. *Waiting* leaves out the rows of the last hours. *Correcting* keeps them: with F(e) the probability
that a click arrives within the age e of its impression (`retraining.arrivals`), "clicked and arrived" has the probability p F(e), and
training maximises its likelihood (`ops.loss.log_loss`). Both can be combined.

Fixed weights, such as 1 / F(e) for positives and (1 - p) / (1 - p F(e)) for negatives (Ktena et al. 2019), need p before there is a
model; with the mean CTR in place of p, rows with a high p stay underestimated. Here p is the model's own, in every step.
"""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from deep_interest.errors import InputError
from deep_interest.logs.suspicions import ticks_per_second
from deep_interest.logs.tables import ARRIVED, CLICK_TIME, CanonicalTables
from deep_interest.retraining.arrivals import Arrivals, estimate_arrivals
from deep_interest.retraining.days import day_number
from deep_interest.retraining.parameters import DelayedClicksParameters

_SECONDS_PER_HOUR = 3_600


@dataclass(frozen=True)
class NightLabels:
    """The log as it was known on a night.

    Attributes:
        tables: tables with the labels of the night; the training impressions have the column `ARRIVED` if the loss is to be corrected.
        facts: counts for the summary of a run, as JSON values.
    """

    tables: CanonicalTables
    facts: dict[str, Any]


def require_click_times(tables: CanonicalTables) -> None:
    """Check that the log says when clicks happened.

    Raises:
        InputError: it does not.
    """
    if CLICK_TIME not in tables.shown:
        raise InputError(
            "retraining.delayed_clicks: the impressions do not say when they were clicked; name the column in source.impressions.click_time"
        )


def ticks_of_hours(tables: CanonicalTables, hours: float) -> int:
    """Return hours in the unit of the log's times."""
    return round(hours * _SECONDS_PER_HOUR * ticks_per_second(tables.shown["time"]))


def night_after(tables: CanonicalTables, day: str, time_zone: str) -> int:
    """Return the midnight at the end of a day, in the unit of the log's times."""
    midnight = datetime.combine(
        date.fromisoformat(day) + timedelta(days=1), datetime.min.time(), ZoneInfo(time_zone)
    )
    return int(midnight.timestamp()) * ticks_per_second(tables.shown["time"])


def as_of(tables: CanonicalTables, night: int) -> CanonicalTables:
    """Return the log as it was known on a night: no later event, and the clicks that had arrived.

    Args:
        tables: log with ``click_time``.
        night: time; an event counts if its time is before it.
    """
    shown, done = tables.shown, tables.behaviors
    shown = shown[shown["time"] < night].reset_index(drop=True)
    label = (shown[CLICK_TIME].to_numpy() < night).astype(np.int8)
    return replace(
        tables,
        impressions=shown.assign(label=label),
        behaviors=done[done["time"] < night].reset_index(drop=True),
    )


def known_arrivals(tables: CanonicalTables, night: int) -> Arrivals:
    """Estimate how soon clicks arrive from those that had arrived on a night."""
    shown = tables.shown
    time, click = shown["time"].to_numpy(), shown[CLICK_TIME].to_numpy()
    known = click < night
    return estimate_arrivals(click[known] - time[known], night - time[known])


def for_training(
    tables: CanonicalTables, night: int, *, held_out: str, wait_hours: int, correct: bool
) -> NightLabels:
    """Return the log whose impressions before the held-out day are those to train on, with the labels of a night.

    The impressions of the held-out day, and all behaviours, are unchanged.

    Args:
        tables: log with ``click_time``.
        night: time of the training.
        held_out: the held-out day.
        wait_hours: impressions younger than this are left out.
        correct: whether to add `ARRIVED`.

    Raises:
        InputError: no impression is old enough, or no click has arrived.
    """
    shown = tables.shown
    time, click = shown["time"].to_numpy(), shown[CLICK_TIME].to_numpy()
    trains = shown["day"].to_numpy() < day_number(held_out)
    old_enough = night - time >= ticks_of_hours(tables, wait_hours)
    if not (trains & old_enough).any():
        raise InputError(
            f"retraining.delayed_clicks.wait_hours is {wait_hours}, but no impression before {held_out} is older; wait less, or provide more days"
        )
    known = click < night
    label = np.where(trains, known, shown["label"].to_numpy()).astype(np.int8)
    shown = shown.assign(label=label)
    arrived = known_arrivals(tables, night)
    share = arrived(night - time)
    if correct:
        shown = shown.assign(**{ARRIVED: np.where(trains, share, 1.0).astype(np.float32)})
    kept = ~trains | old_enough
    used = trains & kept
    facts = {
        "impressions": int(used.sum()), "waiting": int((trains & ~old_enough).sum()), "clicks": int((used & known).sum()),
        "clicks_expected": round(expected_clicks(known[used], share[used]), 1),
        "median_delay_hours": round(arrived.quantile(0.5) / ticks_of_hours(tables, 1), 3),
    }  # fmt: skip
    return NightLabels(replace(tables, impressions=shown[kept].reset_index(drop=True)), facts)


def retraining_labels(
    tables: CanonicalTables,
    night: int,
    *,
    held_out: str,
    wait_hours: int,
    parameters: DelayedClicksParameters,
) -> NightLabels:
    """Return the log of a retraining run: labels of the night, training rows as in `for_training`, and a held-out day with complete labels.

    Args:
        tables: log with ``click_time``; later events and clicks are ignored.
        night: time of the run.
        held_out: the held-out day.
        wait_hours: impressions younger than this are not trained on.
        parameters: whether to correct, and when labels are complete.

    Raises:
        InputError: no training row is old enough, no label of the held-out day is complete, or no click has arrived.
    """
    tables = as_of(tables, night)
    arrived = known_arrivals(tables, night)
    found = for_training(tables, night, held_out=held_out, wait_hours=wait_hours, correct=parameters.correct)
    shown = found.tables.shown
    age = night - shown["time"].to_numpy()
    judged = shown["day"].to_numpy() == day_number(held_out)
    complete = age >= ticks_of_hours(tables, parameters.complete_hours)
    if not (judged & complete).any():
        raise InputError(
            f"retraining.delayed_clicks.complete_hours is {parameters.complete_hours}, but no impression of {held_out} is older on the night; "
            "reduce it, or provide more days"
        )
    of_judged = judged & complete
    known = shown["label"].to_numpy()[of_judged] == 1
    expected = expected_clicks(known, arrived(age[of_judged]))
    facts = found.facts | {
        "wait_hours": wait_hours, "corrected": parameters.correct, "judged": int(of_judged.sum()),
        "not_judged": int((judged & ~complete).sum()), "judged_clicks": int(known.sum()), "judged_clicks_expected": round(expected, 1),
        "judged_arrived": round(known.sum() / expected, 4) if expected else 1.0,
    }  # fmt: skip
    kept = shown[~judged | complete].reset_index(drop=True)
    return NightLabels(replace(found.tables, impressions=kept), facts)


def expected_clicks(known: np.ndarray, arrived: np.ndarray) -> float:
    """Estimate how many clicks there will be in the end: each one that is known represents 1 / F of them (Horvitz and Thompson 1952).

    Args:
        known: ``(n,)`` whether a click has arrived.
        arrived: ``(n,)`` probability that a click has arrived.
    """
    return float((1 / arrived[known]).sum())
