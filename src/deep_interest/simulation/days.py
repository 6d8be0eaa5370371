"""The simulated log as it would arrive: a folder of tables a day, with goods that are listed anew and a day gone wrong."""

from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from deep_interest.errors import InputError
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.randomness import generator
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import make_items


class DailyLog(BaseModel):
    """What happens to the log from day to day, beside the users' drifting interests.

    Attributes:
        new_goods: share of the goods that are listed anew each day: from then on the good has a new id, with the category and
            shop of the old one, as when a shop sells it as a new article. True click probabilities stay as they are.
        corrupted_day: number of the day, from 1, on which every impression is logged as clicked; none if left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    new_goods: float = Field(0.03, ge=0, lt=1)
    corrupted_day: int | None = Field(None, ge=1)


def simulated_days(
    simulation: SimulationConfig, daily: DailyLog
) -> Iterator[tuple[str, dict[str, pd.DataFrame]]]:
    """Draw the log and cut it into days with impressions.

    Args:
        simulation: the log.
        daily: what happens to it from day to day.

    Yields:
        The day's name and its tables ``behaviors``, ``impressions``, ``items`` and ``users``. The first day has all behaviours
        before it, all goods and all users; later ones have the goods listed that day.

    Raises:
        InputError: there is no such day to corrupt.
    """
    if daily.corrupted_day is not None and daily.corrupted_day > simulation.impression_days:
        raise InputError(
            f"corrupted_day: found {daily.corrupted_day}, but the log has {simulation.impression_days} days with impressions"
        )
    behaviors, impressions = (
        pd.concat(blocks(simulation), ignore_index=True) for blocks in (behavior_blocks, impression_blocks)
    )
    items, users = make_items(simulation), pd.concat(user_blocks(simulation), ignore_index=True)
    listing = _listings(simulation, daily)
    ids = items["item"].to_numpy()
    for number in range(simulation.impression_days):
        begin = simulation.origin + (simulation.behavior_days + number) * SECONDS_PER_DAY
        done, shown = (
            table[(table["time"] >= since) & (table["time"] < begin + SECONDS_PER_DAY)]
            for table, since in ((behaviors, begin if number else simulation.origin), (impressions, begin))
        )
        tables = {
            name: table.assign(item=_listed(table["item"], ids, listing[number]))
            for name, table in (("behaviors", done), ("impressions", shown))
        }
        new = np.ones(len(ids), bool) if number == 0 else listing[number] > listing[number - 1]
        tables["items"] = items[new].assign(item=_listed(items["item"][new], ids, listing[number]))
        tables["users"] = users if number == 0 else users.head(0)
        if number + 1 == daily.corrupted_day:
            tables["impressions"] = tables["impressions"].assign(label=np.int8(1))
        day = simulation.first_impression_day + timedelta(days=number)
        yield day.isoformat(), {name: table.reset_index(drop=True) for name, table in tables.items()}


def day_names(simulation: SimulationConfig) -> list[str]:
    """The days with impressions."""
    first: date = simulation.first_impression_day
    return [(first + timedelta(days=number)).isoformat() for number in range(simulation.impression_days)]


def _listings(simulation: SimulationConfig, daily: DailyLog) -> np.ndarray:
    """How often each good (in the order of the ids) has been listed anew up to each day: ``(days, items)``."""
    rng = generator(simulation.seed, "listings", 0)
    anew = rng.random((simulation.impression_days, simulation.items)) < daily.new_goods
    anew[0] = False
    return anew.cumsum(axis=0)


def _listed(item: pd.Series, ids: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The ids under which goods are listed; ``ids`` ascending."""
    return item.to_numpy() + times[np.searchsorted(ids, item.to_numpy())] * len(ids)
