"""Generate the simulated log as streams of tables."""

import logging
from collections.abc import Iterable
from datetime import timedelta

import pandas as pd

from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.retraining.parameters import BacktestParameters
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.days import simulated_days
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import make_items

logger = logging.getLogger(__name__)


def simulate(simulation: SimulationConfig, dataset: DatasetParameters) -> dict[str, Iterable[pd.DataFrame]]:
    """Return items, users, behaviours and impressions as streams of blocks, generated while they are written."""
    simulation = simulation.changed(dataset.simulation)
    return {
        "items": [make_items(simulation)],
        "users": user_blocks(simulation),
        "behaviors": behavior_blocks(simulation),
        "impressions": impression_blocks(simulation),
    }


def simulate_days(
    simulation: SimulationConfig, backtest: BacktestParameters
) -> Iterable[tuple[str, dict[str, pd.DataFrame]]]:
    """Return the date and the tables of each day as a stream; a warning names the corrupted day, if there is one."""
    corrupted = backtest.log.corrupted_day
    if corrupted is not None:
        day = simulation.first_impression_day + timedelta(days=corrupted - 1)
        logger.warning(
            "%s is corrupted on purpose (backtest.log.corrupted_day: %d): every impression is clicked, and retraining refuses the day; "
            "--params=backtest.log.corrupted_day=null writes valid days only", day, corrupted,
        )  # fmt: skip
    return simulated_days(simulation, backtest.log)
