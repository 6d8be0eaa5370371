"""The nodes that generate the simulated log."""

import pytest

from deep_interest.pipelines.simulate.nodes import simulate_days
from deep_interest.retraining.parameters import BacktestParameters
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.days import DailyLog, day_names


@pytest.mark.parametrize(("corrupted", "warnings"), [(3, 1), (None, 0)])
def test_a_warning_names_the_corrupted_day(caplog, corrupted, warnings):
    simulation = SimulationConfig(impression_days=6)
    simulate_days(simulation, BacktestParameters(log=DailyLog(corrupted_day=corrupted)))
    messages = [record.message for record in caplog.records]
    assert len(messages) == warnings
    assert all(text.startswith(f"{day_names(simulation)[2]} is corrupted on purpose") for text in messages)
