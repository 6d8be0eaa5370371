"""What clicks that have not arrived cost, by what retraining does about them: one JSON line per delay and choice.

    python benchmarks/delayed_clicks.py                      # delays of 12 and 48 hours on average, and delays that depend on the category
    python benchmarks/delayed_clicks.py --users 2000 --nights 2 --model base

The days of the simulated shop are retrained night by night as in `kedro run --pipelines=delayed_clicks.simulated`, and evaluated on the next
day with final labels. ``<metric>`` is over all nights, ``<metric>_cost`` the difference to training on final labels, with its 95 %
interval over users (``low``, ``high``). Lines with ``hours`` compare the estimated share of clicks that arrive within so many hours, as of
the first of the nights, with the share of all clicks of these impressions that do.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from kedro.config import OmegaConfigLoader
from machine import this_commit, this_machine

from deep_interest.logs.canonical import canonical
from deep_interest.logs.tables import CLICK_TIME, NEVER, CanonicalTables
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.retraining.days import ReaderConfig, combine_days
from deep_interest.retraining.delay_backtest import NightlyFits, choices_of, replay_nights
from deep_interest.retraining.delay_table import ALL_NIGHTS, cost_table
from deep_interest.retraining.delayed_clicks import as_of, known_arrivals, night_after
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.retraining.runs import retraining_experiment
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.days import DailyLog, simulated_days
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters

CONF = Path(__file__).parents[1] / "conf"
CASES = {
    "12 h": {"mean_hours": 12.0},
    "48 h": {"mean_hours": 48.0},
    "12 h, by category": {"mean_hours": 12.0, "category_spread": 0.7},
}
HOURS = (6, 12, 24, 48, 96)
WARM_UP = 7


def simulated_log(
    simulation: SimulationConfig, settings: DatasetParameters
) -> tuple[CanonicalTables, list[str]]:
    """Return the log of all days with final labels, and their names."""
    reading = ReaderConfig(settings.source, settings.features)
    days, parts = [], []
    for day, tables in simulated_days(simulation, DailyLog(corrupted_day=None)):
        shown = tables["impressions"]
        shown = shown.assign(**{CLICK_TIME: shown[CLICK_TIME].fillna(NEVER).astype(np.int64)})
        users = tables["users"] if len(tables["users"]) else None
        behaviors, shown = (
            table.assign(day=(table["time"] // 86_400).astype(np.int32))
            for table in (tables["behaviors"], shown)
        )
        parts.append(canonical(CanonicalTables(behaviors, tables["items"], users, shown)))
        days.append(day)
    return combine_days(parts, days, reading), days


def arrival_lines(log: CanonicalTables, night: int) -> Iterator[dict[str, object]]:
    """Compare the estimated distribution of the delays with that of all clicks on the same impressions."""
    arrived = known_arrivals(as_of(log, night), night)
    shown = log.shown[(log.shown["time"] < night) & (log.shown["label"] == 1)]
    delay = (shown[CLICK_TIME] - shown["time"]).to_numpy()
    seen = shown[CLICK_TIME].to_numpy() < night
    delay = delay[of_horizon := delay <= arrived.delays[-1]]
    seen = seen[of_horizon]
    for hours in HOURS:
        yield {
            "hours": hours, "estimated": round(float(arrived(hours * 3_600)), 4), "clicks": int(seen.sum()),
            "true": round(float((delay < hours * 3_600).mean()), 4),
            "of_known_clicks": round(float((delay[seen] < hours * 3_600).mean()), 4),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="din")
    parser.add_argument("--users", type=int, default=6_000)
    parser.add_argument("--nights", type=int, default=5)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    chosen = parser.parse_args()
    parameters = OmegaConfigLoader(
        str(CONF), base_env="base", default_run_env="base", merge_strategy={"parameters": "soft"}
    )["parameters"]
    settings = DatasetParameters.model_validate(parameters["datasets"]["simulated"])
    retraining = RetrainingParameters()
    facts = {"bench": "delayed_clicks", "model": chosen.model, "users": chosen.users, "nights": chosen.nights}
    facts |= {"machine": this_machine(), "commit": this_commit()}
    for case in chosen.cases:
        sizes = {
            "users": chosen.users,
            "impression_days": WARM_UP + chosen.nights,
            "click_delays": CASES[case],
        }
        simulation = SimulationConfig.model_validate(parameters["simulation"] | sizes)
        log, days = simulated_log(simulation, settings)
        for line in arrival_lines(log, night_after(log, days[WARM_UP - 1], "UTC")):
            print(json.dumps(facts | {"case": case} | line), flush=True)
        choices = choices_of(retraining.delayed_clicks)
        with tempfile.TemporaryDirectory() as folder:
            run = RunParameters(device="cpu", threads=1, processes=1, workspace=folder)
            experiment = retraining_experiment(
                "simulated", chosen.model, RowOptions(parameters["models"][chosen.model]), settings,
                Recipes(parameters["recipes"]), run, retraining,
            )  # fmt: skip
            fits = NightlyFits(
                experiment, retraining, settings.protocol, settings.features, "UTC", Path(folder)
            )
            nights = list(replay_nights(log, days, days[WARM_UP:], choices, fits, seeds=(1,)))
        costs = cost_table(nights, choices)
        for row in costs[costs["day"] == ALL_NIGHTS].drop(columns="day").to_dict("records"):
            rounded = {
                name: round(value, 5) if isinstance(value, float) else value
                for name, value in row.items()
                if not pd.isna(value)
            }
            print(json.dumps(facts | {"case": case} | rounded), flush=True)


if __name__ == "__main__":
    main()
