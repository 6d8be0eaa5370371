"""Simulate an A/B test in the shop, in place of reading its log, and write what only the simulator knows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.abtest.metrics import QUANTITIES
from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.simulation.config import SimulationConfig
from deep_interest.training.parameters import Recipes, RunParameters

_COLUMNS = ["user", "arm", "day", *QUANTITIES]


@node_factory
def make_simulate(name: str) -> Callable[..., Any]:
    """Return the node function that simulates a test; days that exist are kept."""

    def simulate(
        settings: ABTestParameters, simulation: SimulationConfig, dataset: DatasetParameters, models: dict[str, Any], recipes: Recipes,
        run: RunParameters, retraining: RetrainingParameters,
    ) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, int], pd.DataFrame, pd.DataFrame, pd.DataFrame]:  # fmt: skip
        """Return sums by user, arm and day, sums by user before the test, no skipped rows, A/A test, regret and true lifts."""
        from deep_interest.closed_loop.results import aa_results, regret_table, truth_table
        from deep_interest.closed_loop.setup import TEST, Training, build_world, shop_of, splits_of

        assert settings.simulation is not None
        phases, shop = settings.simulation.phases, shop_of(simulation, settings.simulation)
        training = Training(dataset, reading_of(dataset), dataset.protocol, models, recipes, run, retraining)
        logs, begin = {}, phases.warm_up + phases.aa
        for world_name, split in splits_of(settings).items():
            world, learner = build_world(
                world_name, split, Path(run.workspace) / "abtests" / name, shop, settings, training
            )
            world.run(learner)
            logs[world_name] = world.log
        tested, before = logs[TEST].exposures(range(begin, phases.total)), logs[TEST].exposures(range(begin))
        worlds = {
            arm: logs[f"all_{arm}"].exposures(range(begin, phases.total))
            for arm in settings.split
            if f"all_{arm}" in logs
        }
        return (
            tested[_COLUMNS],
            before.groupby("user", as_index=False)[list(QUANTITIES)].sum(),
            {},
            aa_results(before, logs[TEST], phases, settings),
            regret_table(tested, logs[TEST].served(range(begin, phases.total))),
            truth_table(tested, worlds, control=settings.control),
        )

    return simulate


def write_simulation_page(
    results: pd.DataFrame,
    aa: pd.DataFrame,
    regret: pd.DataFrame,
    truth: pd.DataFrame,
    settings: ABTestParameters,
) -> str:
    """Return the page of what only the simulator knows."""
    from deep_interest.closed_loop.page import simulation_page

    assert settings.simulation is not None
    models = {
        arm: ranker.model for arm, ranker in settings.simulation.arms.items() if ranker.model is not None
    }
    return simulation_page(
        title=settings.title, control=settings.control, models=models, results=results, aa=aa, regret=regret, truth=truth,
    )  # fmt: skip
