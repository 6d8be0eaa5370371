"""Choose how long retraining waits for clicks: the shortest wait that past nights do not show to be worse."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_interest.errors import InputError
from deep_interest.evaluation.inferiority import LEVEL
from deep_interest.logs.tables import CLICK_TIME, CanonicalTables
from deep_interest.retraining.delay_backtest import Choice, Night, NightlyFits, metric_sums, replay_nights
from deep_interest.retraining.delayed_clicks import (
    as_of,
    night_after,
    require_click_times,
    retraining_labels,
    ticks_of_hours,
)
from deep_interest.retraining.paired_ratios import paired_difference
from deep_interest.retraining.parameters import DelayedClicksParameters
from deep_interest.retraining.plan import Plan

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChosenWait:
    """The wait and what it was chosen from.

    Attributes:
        hours: the wait.
        facts: description of the choice for the summary of a run, as JSON values; None if the wait is a parameter.
    """

    hours: int
    facts: dict[str, Any] | None = None


def choose_wait(log: CanonicalTables, days: Sequence[str], fits: NightlyFits, *, night: int) -> ChosenWait:
    """Choose the shortest candidate whose log loss on past nights is not significantly worse than that of the best one.

    Each candidate is trained on each of the last nights with the labels of that night, and evaluated on the next day with the labels of
    ``night``, if all impressions of that day are older than ``complete_hours``. No later click is used.

    Args:
        log: log.
        days: days that may be used, in order; all before the held-out day of the run.
        fits: how the model of a night is trained.
        night: time of the run.

    Raises:
        InputError: every day lacks complete labels, or two days before it.
    """
    parameters = fits.retraining.delayed_clicks
    log = as_of(log, night)
    complete = ticks_of_hours(log, parameters.complete_hours)
    longest = -(-parameters.candidates[-1] // 24)
    usable = [day for day in days[longest + 1 :] if night_after(log, day, fits.time_zone) + complete <= night]
    if not usable:
        raise InputError(
            f"retraining.delayed_clicks.wait_hours: to choose among {list(parameters.candidates)} hours needs a day whose labels are complete "
            f"(older than {parameters.complete_hours} hours) and {longest + 1} days before it; set a number of hours, or provide more days"
        )
    judged = usable[-parameters.nights :]
    choices = [Choice(hours, parameters.correct) for hours in parameters.candidates]
    nights = list(replay_nights(log, days, judged, choices, fits, seeds=(fits.retraining.seed,)))
    return _chosen(nights, choices)


def _chosen(nights: Sequence[Night], choices: Sequence[Choice]) -> ChosenWait:
    losses = {choice: metric_sums(nights, choice.name)["logloss"] for choice in choices}
    best = min(choices, key=lambda choice: losses[choice].value)
    table, chosen = [], best
    for choice in reversed(choices):
        cost = paired_difference(losses[choice], losses[best])
        if choice.wait_hours <= best.wait_hours and (
            choice == best or cost.p_value >= LEVEL or cost.difference <= 0
        ):
            chosen = choice
        table.append(
            {
                "wait_hours": choice.wait_hours, "logloss": round(losses[choice].value, 6),
                "to_best": [round(float(value), 6) for value in (cost.difference, cost.low, cost.high)],
            }
        )  # fmt: skip
    facts = {
        "chosen_hours": chosen.wait_hours, "days": [night.day for night in nights],
        "impressions": int(np.sum([len(night.labels) for night in nights])), "clicks": int(np.sum([night.labels.sum() for night in nights])),
        "candidates": table[::-1],
    }  # fmt: skip
    logger.info(
        "waiting %d h for clicks; log loss on %s: %s", chosen.wait_hours, ", ".join(night.day for night in nights),
        ", ".join(f"{of['wait_hours']} h {of['logloss']:.4f}" for of in table[::-1]),
    )  # fmt: skip
    return ChosenWait(chosen.wait_hours, facts)


def labels_of_run(
    tables: CanonicalTables,
    plan: Plan,
    wait: ChosenWait,
    time_zone: str,
    parameters: DelayedClicksParameters,
) -> tuple[CanonicalTables, dict[str, Any] | None]:
    """Return the log with the labels of a retraining run, and how complete they are; unchanged if it does not say when clicks happened.

    Args:
        tables: log.
        plan: plan of the run.
        wait: the wait.
        time_zone: time zone in which days begin at midnight.
        parameters: what to do about clicks that may still come.

    Raises:
        InputError: as for `delayed_clicks.retraining_labels`, or the parameters need the times of the clicks.
    """
    if CLICK_TIME not in tables.shown:
        if parameters.correct or wait.hours:
            require_click_times(tables)
        return tables, None
    night = night_after(tables, plan.newest, time_zone)
    found = retraining_labels(
        tables, night, held_out=plan.held_out, wait_hours=wait.hours, parameters=parameters
    )
    return found.tables, found.facts | ({} if wait.facts is None else {"choice": wait.facts})
