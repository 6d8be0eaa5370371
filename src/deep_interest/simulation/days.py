"""Simulated log in daily deliveries: one set of tables per day, with relisted items and optionally a corrupted day."""

from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np
import pandas as pd
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from deep_interest.errors import InputError
from deep_interest.logs.tables import CLICK_TIME
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import make_items


class DailyLog(BaseModel):
    """Changes of the log from day to day, in addition to the drift of the users' interests.

    Attributes:
        new_items: share of the items that are relisted each day (deprecated alias ``new_goods``): from then on the item
            has a new id with the same category and shop, as if a shop sold it as a new product. True click
            probabilities do not change.
        corrupted_day: day, counted from 1, on which every impression is logged as clicked; None for no such day.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    new_items: float = Field(0.03, ge=0, lt=1, validation_alias=AliasChoices("new_items", "new_goods"))
    corrupted_day: int | None = Field(None, ge=1)


def simulated_days(
    simulation: SimulationConfig, daily: DailyLog
) -> Iterator[tuple[str, dict[str, pd.DataFrame]]]:
    """Generate the log and split it into the days with impressions.

    Args:
        simulation: parameters of the log.
        daily: changes from day to day.

    Yields:
        Date (YYYY-MM-DD) and tables ``behaviors``, ``impressions``, ``items`` and ``users`` of each day. The first day
        includes all earlier behaviours, all items and all users; each later day has the items relisted on that day.

    Raises:
        InputError: ``corrupted_day`` is after the last day.
    """
    if daily.corrupted_day is not None and daily.corrupted_day > simulation.impression_days:
        raise InputError(
            f"corrupted_day is {daily.corrupted_day}, expected at most {simulation.impression_days}, the number of "
            "days with impressions"
        )
    behaviors, impressions = (
        pd.concat(blocks(simulation), ignore_index=True) for blocks in (behavior_blocks, impression_blocks)
    )
    items, users = make_items(simulation), pd.concat(user_blocks(simulation), ignore_index=True)
    relistings = _count_relistings(simulation, daily)
    ids = items["item"].to_numpy()
    for index in range(simulation.impression_days):
        begin = simulation.origin + (simulation.behavior_days + index) * SECONDS_PER_DAY
        day_behaviors, day_impressions = (
            table[(table["time"] >= since) & (table["time"] < begin + SECONDS_PER_DAY)]
            for table, since in ((behaviors, begin if index else simulation.origin), (impressions, begin))
        )
        tables = {
            name: table.assign(item=_current_ids(table["item"], ids, relistings[index]))
            for name, table in (("behaviors", day_behaviors), ("impressions", day_impressions))
        }
        is_new = np.ones(len(ids), bool) if index == 0 else relistings[index] > relistings[index - 1]
        tables["items"] = items[is_new].assign(
            item=_current_ids(items["item"][is_new], ids, relistings[index])
        )
        tables["users"] = users if index == 0 else users.head(0)
        if index + 1 == daily.corrupted_day:
            tables["impressions"] = _all_clicked(tables["impressions"])
        day = simulation.first_impression_day + timedelta(days=index)
        yield day.isoformat(), {name: table.reset_index(drop=True) for name, table in tables.items()}


def _all_clicked(impressions: pd.DataFrame) -> pd.DataFrame:
    """Return impressions that are all clicked, at once where there was no click."""
    if CLICK_TIME in impressions:
        impressions = impressions.assign(**{CLICK_TIME: impressions[CLICK_TIME].fillna(impressions["time"])})
    return impressions.assign(label=np.int8(1))


def day_names(simulation: SimulationConfig) -> list[str]:
    """Return the dates (YYYY-MM-DD) of the days with impressions."""
    first: date = simulation.first_impression_day
    return [(first + timedelta(days=index)).isoformat() for index in range(simulation.impression_days)]


def _count_relistings(simulation: SimulationConfig, daily: DailyLog) -> np.ndarray:
    """Return how often each item, in order of its id, has been relisted up to each day; shape (days, items)."""
    rng = generator(simulation.seed, "listings", 0)
    is_relisted = rng.random((simulation.impression_days, simulation.items)) < daily.new_items
    is_relisted[0] = False
    return is_relisted.cumsum(axis=0)


def _current_ids(item: pd.Series, ids: np.ndarray, relistings: np.ndarray) -> np.ndarray:
    """Return the current ids of items that have been relisted ``relistings`` times; ``ids`` are ascending."""
    return item.to_numpy() + relistings[np.searchsorted(ids, item.to_numpy())] * len(ids)
