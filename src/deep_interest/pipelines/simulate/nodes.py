"""Draw the simulated log as streams of tables."""

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
    """Behaviours, items, users and impressions; each is drawn block by block while it is written."""
    return {
        "items": [make_items(simulation)],
        "users": user_blocks(simulation),
        "behaviors": behavior_blocks(simulation),
        "impressions": impression_blocks(simulation),
    }


def simulate_days(
    simulation: SimulationConfig, backtest: BacktestParameters
) -> Iterable[tuple[str, dict[str, pd.DataFrame]]]:
    """The log's days one by one."""
    return simulated_days(simulation, backtest.log)
