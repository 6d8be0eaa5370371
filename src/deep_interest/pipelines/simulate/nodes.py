"""Generate the simulated log as streams of tables."""

from collections.abc import Iterable

import pandas as pd

from deep_interest.retraining.parameters import BacktestParameters
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.days import simulated_days
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.users import user_blocks
from deep_interest.simulation.world import make_items


def simulate(simulation: SimulationConfig) -> dict[str, Iterable[pd.DataFrame]]:
    """Return items, users, behaviours and impressions as streams of blocks, generated while they are written."""
    return {
        "items": [make_items(simulation)],
        "users": user_blocks(simulation),
        "behaviors": behavior_blocks(simulation),
        "impressions": impression_blocks(simulation),
    }


def simulate_days(
    simulation: SimulationConfig, backtest: BacktestParameters
) -> Iterable[tuple[str, dict[str, pd.DataFrame]]]:
    """Return the date and the tables of each day as a stream."""
    return simulated_days(simulation, backtest.log)
