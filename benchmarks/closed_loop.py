"""The simulated shop served by rankers: speed of the loop, a month of an A/B test with retraining, and coverage over many tests.

    python benchmarks/closed_loop.py speed                               # ranked visits of 100 candidates per minute and core
    python benchmarks/closed_loop.py month --folder /tmp/month --users 46000 --arms base din
    python benchmarks/closed_loop.py coverage --users 20000 --repetitions 400

One JSON object per line. `speed` trains each model on four days of random rankings, and measures the CPU time of the fifth day: visits,
candidates, histories, scores, auctions, clicks and log. `month` runs the test ``simulated`` of conf/base with other sizes and writes its pages
to the folder; it resumes after a kill. `coverage` simulates the worlds with all users in each arm of two rankers that learn nothing, so that arms
cannot influence each other; each repetition draws users and splits them, and reads out what they did in the world of their arm.
"""

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kedro.config import OmegaConfigLoader
from machine import this_commit, this_machine

from deep_interest.abtest.metrics import METRICS, QUANTITIES
from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.closed_loop.day import simulate_day
from deep_interest.closed_loop.results import PAPER_METRICS, user_days
from deep_interest.closed_loop.setup import Training, build_world, shop_of
from deep_interest.closed_loop.world import block_of
from deep_interest.pipelines.abtest import nodes, simulated
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.simulation.config import SimulationConfig
from deep_interest.training.parameters import Recipes, RunParameters

CONF = Path(__file__).parents[1] / "conf"
MODELS = ("base", "din", "dien")
SPEED_DAYS = {"warm_up": 4, "aa": 0, "ab": 1}
NOISY = {"ranker": "oracle", "noise": 1.0}


class Parameters:
    """Parameters of conf/base, with changes to the simulated test.

    Args:
        arms: ranker of each arm; the first one is the control.
        users: number of users.
        phases: days of each phase.
        counterfactuals: whether the worlds with all users in one arm are simulated too.
        workspace: folder of worlds and models.
    """

    def __init__(
        self, arms: Mapping[str, Any], users: int, phases: Mapping[str, int], workspace: Path, *, counterfactuals: bool = False
    ) -> None:  # fmt: skip
        every = OmegaConfigLoader(
            str(CONF), base_env="base", default_run_env="base", merge_strategy={"parameters": "soft"}
        )["parameters"]
        block = every["abtests"]["simulated"]
        block["simulation"] |= {
            "arms": dict(arms),
            "phases": dict(phases),
            "counterfactuals": counterfactuals,
        }
        block["simulation"]["shop"]["users"] = users
        block |= {"control": next(iter(arms)), "split": dict.fromkeys(arms, 1)}
        self.test = ABTestParameters.model_validate(block)
        self.simulation = SimulationConfig.model_validate(every["simulation"])
        self.dataset = DatasetParameters.model_validate(every["datasets"]["simulated"])
        self.models, self.recipes = every["models"], Recipes.model_validate(every["recipes"])
        self.run = RunParameters.model_validate(every["training"] | {"workspace": str(workspace)})
        self.retraining = RetrainingParameters.model_validate(every["retraining"])

    def training(self) -> Training:
        """Return how the models are trained."""
        dataset = self.dataset
        return Training(
            dataset,
            reading_of(dataset),
            dataset.protocol,
            self.models,
            self.recipes,
            self.run,
            self.retraining,
        )


def speed(users: int) -> Iterator[dict[str, Any]]:
    """Measure the CPU time of a day with each ranker."""
    for name, arm in {
        "oracle": {"ranker": "oracle"},
        **{model: {"model": model} for model in MODELS},
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            parameters = Parameters(
                {name: arm, "random": {"ranker": "random"}}, users, SPEED_DAYS, Path(folder)
            )
            assert parameters.test.simulation is not None
            shop = shop_of(parameters.simulation, parameters.test.simulation)
            world, learner = build_world(
                "speed",
                {name: 1.0, "random": 0.0},
                Path(folder),
                shop,
                parameters.test,
                parameters.training(),
            )
            world.run(learner)  # the fifth day once, which also compiles
            ranker, block = world.arms[name].ranker(), block_of(shop.config, 0)
            day, clicks = SPEED_DAYS["warm_up"], world.log.clicks(SPEED_DAYS["warm_up"], block)
            begin = time.process_time()
            found = simulate_day(shop, block, clicks, day, np.zeros(len(block.users.ids), np.int64), [ranker])
            seconds = time.process_time() - begin
            visits = len(found.impressions.groupby(["user", "time"]))
            yield {
                "ranker": ranker.version if name == "oracle" else name, "visits": visits, "candidates": shop.traffic.candidates,
                "cpu_seconds": round(seconds, 2), "visits_per_minute_and_core": round(60 * visits / seconds),
            }  # fmt: skip


def month(
    folder: Path, users: int, arms: list[str], phases: Mapping[str, int], *, counterfactuals: bool
) -> Iterator[dict[str, Any]]:
    """Run the test and write its pages."""
    parameters = Parameters(
        {arm: {"model": arm} for arm in arms}, users, phases, folder, counterfactuals=counterfactuals
    )
    wall, cpu = time.perf_counter(), time.process_time()
    simulate = simulated.make_simulate("month")
    days, before, left_out, aa, regret, truth = simulate(
        parameters.test, parameters.simulation, parameters.dataset, parameters.models, parameters.recipes, parameters.run,
        parameters.retraining,
    )  # fmt: skip
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    results, by_day, by_tenure, checks = nodes.compare(days, before, parameters.test)
    pages = {
        "simulation.md": simulated.write_simulation_page(results, aa, regret, truth, parameters.test),
        "results.md": nodes.write_page(results, by_day, by_tenure, checks, left_out, parameters.test),
    }
    for name, page in pages.items():
        (folder / name).write_text(page, encoding="utf-8")
    for name, table in {
        "results": results,
        "by_day": by_day,
        "by_tenure": by_tenure,
        "aa": aa,
        "regret": regret,
        "truth": truth,
    }.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    users_a_day = days.groupby("day")["user"].nunique().mean()
    yield {
        "users_a_day": round(users_a_day), "arms": arms, "phases": dict(phases), "impressions": int(days["impressions"].sum()),
        "wall_seconds": round(wall), "cpu_seconds": round(cpu),
    }  # fmt: skip


def coverage(users: int, repetitions: int, days: int) -> Iterator[dict[str, Any]]:
    """Read out many tests of the users of two worlds, and compare with the lift between the worlds."""
    arms = {"popularity": {"ranker": "popularity"}, "oracle": NOISY}
    phases = {"warm_up": 2, "aa": 5, "ab": days}
    with tempfile.TemporaryDirectory() as folder:
        parameters = Parameters(arms, users, phases, Path(folder))
        assert parameters.test.simulation is not None
        shop = shop_of(parameters.simulation, parameters.test.simulation)
        worlds, begin = {}, phases["warm_up"] + phases["aa"]
        for arm in arms:
            split = {"popularity": 0.0} | {arm: 1.0}
            world, learner = build_world(
                arm, split, Path(folder), shop, parameters.test, parameters.training()
            )
            world.run(learner)
            worlds[arm] = world.log.exposures(range(begin, begin + days))
        before = world.log.exposures(range(begin)).groupby("user", as_index=False)[list(QUANTITIES)].sum()
    for kind, treated in (("A/A", "popularity"), ("A/B", "oracle")):
        yield from _levels(kind, worlds["popularity"], worlds[treated], before, users, repetitions)


def _levels(
    kind: str,
    control: pd.DataFrame,
    treated: pd.DataFrame,
    before: pd.DataFrame,
    users: int,
    repetitions: int,
) -> Iterator[dict[str, Any]]:
    from deep_interest.abtest.lift import lift_of

    size, rng = users // 10, np.random.default_rng(0)
    inside: dict[str, list[bool]] = {metric: [] for metric in PAPER_METRICS}
    widths: dict[str, list[float]] = {metric: [] for metric in PAPER_METRICS}
    truth = {metric: _ratio(treated, metric) / _ratio(control, metric) - 1 for metric in PAPER_METRICS}
    by_user = [world.groupby("user", as_index=False)[list(QUANTITIES)].sum() for world in (control, treated)]
    for _ in range(repetitions):
        drawn = rng.permutation(np.arange(1, users + 1))[:size]
        halves = [
            world[world["user"].isin(half)].assign(arm=arm, day=0)
            for world, half, arm in zip(by_user, np.split(drawn, 2), ("control", "treated"), strict=True)
        ]
        moments = user_days(pd.concat(halves), ["control", "treated"], before).moments()
        for metric in PAPER_METRICS:
            found = lift_of(moments["treated"], moments["control"], metric, cuped=True)
            plain = lift_of(moments["treated"], moments["control"], metric)
            inside[metric].append(bool(found.low <= truth[metric] <= found.high))
            widths[metric].append((found.high - found.low) / (plain.high - plain.low))
    for metric in PAPER_METRICS:
        yield {
            "test": kind, "metric": metric, "users": size, "true_lift": round(truth[metric], 4), "repetitions": repetitions,
            "coverage": round(float(np.mean(inside[metric])), 4), "narrower_with_cuped": round(1 - float(np.mean(widths[metric])), 3),
        }  # fmt: skip


def _ratio(world: pd.DataFrame, metric: str) -> float:
    sums = world[list(QUANTITIES)].sum().to_numpy()
    return float(sums[METRICS[metric].y] / sums[METRICS[metric].x])


def main() -> None:
    """Print a JSON line for the machine and one for each result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("speed", "month", "coverage"))
    parser.add_argument(
        "--users", type=int, default=10_000, help="users of the shop, of whom 43 %% come on a day"
    )
    parser.add_argument(
        "--arms", nargs="+", default=list(MODELS), help="models of a month; the first one is the control"
    )
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--aa", type=int, default=7)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--folder", type=Path, help="folder of a month")
    parser.add_argument("--counterfactuals", action="store_true", help="also all users in each arm")
    parser.add_argument("--repetitions", type=int, default=400)
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s  %(message)s")
    if chosen.study == "speed":
        results = speed(chosen.users)
    elif chosen.study == "coverage":
        results = coverage(chosen.users, chosen.repetitions, chosen.days)
    else:
        phases = {"warm_up": chosen.warm_up, "aa": chosen.aa, "ab": chosen.days}
        results = month(
            chosen.folder, chosen.users, chosen.arms, phases, counterfactuals=chosen.counterfactuals
        )
    print(json.dumps({"machine": this_machine(), "commit": this_commit()}), flush=True)
    for result in results:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
