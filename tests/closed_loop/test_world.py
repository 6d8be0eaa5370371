"""Worlds: sticky splits, A/A tests, counterfactual worlds, logs that survive a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from deep_interest.abtest.readout import read_out
from deep_interest.closed_loop.day import Shop
from deep_interest.closed_loop.log import WorldLog
from deep_interest.closed_loop.rankers import Oracle, Popularity
from deep_interest.closed_loop.results import user_days
from deep_interest.closed_loop.world import Fixed, NothingToLearn, World, block_of
from deep_interest.errors import InputError
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.shop_parameters import AuctionParameters, PhaseParameters, TrafficParameters
from deep_interest.simulation.visits import assign_arms

CONFIG = SimulationConfig(
    users=300, block_users=150, items=200, categories=20, themes=5, shops=30, mean_behaviors=15, behavior_days=5, impression_days=5,
    clicks={"target_ctr": 0.2},
)  # fmt: skip
PHASES = PhaseParameters(warm_up=2, aa=1, ab=2)
SHOP = Shop(CONFIG, TrafficParameters(visits=1.5, candidates=10), AuctionParameters(exploration=0.1))


def make_world(folder, rankers=None, split=None):
    rankers = {"noisy": Oracle(2.0), "oracle": Oracle()} if rankers is None else rankers
    split = dict.fromkeys(rankers, 1.0) if split is None else split
    arms = {name: Fixed(ranker) for name, ranker in rankers.items()}
    return World(
        SHOP, WorldLog(folder, CONFIG), PHASES, arms, split, next(iter(rankers)), range(CONFIG.blocks)
    )


def run(folder, *args, **options):
    world = make_world(folder, *args, **options)
    world.run(NothingToLearn())
    return world.log


def impressions(log, days=range(PHASES.total)):
    return pd.concat(
        [pd.read_parquet(log.days / log.name(day) / "impressions.parquet") for day in days], ignore_index=True
    )


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return run(tmp_path_factory.mktemp("world"))


@pytest.mark.slow
def test_each_user_keeps_an_arm_and_the_shares_are_those_of_the_split(log):
    shown = impressions(log)
    assert shown.groupby("user")["arm"].nunique().max() == 1
    arms = assign_arms(np.arange(1, 40_001), {"a": 1, "b": 2, "c": 1}, seed=3)
    assert chisquare(np.bincount(arms), [10_000, 20_000, 10_000]).pvalue > 0.001
    other = assign_arms(np.arange(1, 40_001), {"a": 1, "b": 2, "c": 1}, seed=4)
    assert 0.3 < (arms == other).mean() < 0.45  # (1² + 2² + 1²) / 16 by chance


def test_rankings_are_random_at_first_then_the_controls_then_those_of_the_arms(log):
    versions = [set(impressions(log, range(day, day + 1))["version"]) for day in range(PHASES.total)]
    assert versions == [{"random"}, {"random"}, {"oracle"}, {"oracle"}, {"oracle"}]
    ctr = impressions(log, range(3, 5)).groupby("arm")["true_probability"].mean()
    assert ctr["oracle"] > 1.1 * ctr["noisy"]


@pytest.mark.slow
def test_arms_with_the_same_ranker_show_what_a_world_with_one_arm_shows(tmp_path):
    many = impressions(run(tmp_path / "many", {"a": Oracle(), "b": Oracle(), "c": Oracle()}))
    one = impressions(run(tmp_path / "one", {"a": Oracle()}))
    pd.testing.assert_frame_equal(many.drop(columns="arm"), one.drop(columns="arm"))
    exposures = WorldLog(tmp_path / "many", CONFIG).exposures(range(PHASES.total))
    lifts = read_out(
        user_days(exposures, ["a", "b", "c"]), control="a", split={"a": 1, "b": 1, "c": 1}
    ).results
    assert lifts["p_holm"].min() > 0.05


@pytest.mark.slow
def test_a_world_with_all_users_in_an_arm_differs_by_the_ranker_alone(log, tmp_path):
    everyone = impressions(run(tmp_path, split={"noisy": 0.0, "oracle": 1.0}))
    test = impressions(log)
    assert set(everyone["arm"]) == {"oracle"}
    columns = ["user", "time", "pid", "hour"]
    pd.testing.assert_frame_equal(
        everyone[columns].drop_duplicates(ignore_index=True), test[columns].drop_duplicates(ignore_index=True)
    )
    in_arm = (
        test["arm"] == "oracle"
    )  # rankers that do not learn: the users of the arm do not notice the others
    rest = everyone["user"].isin(test.loc[in_arm, "user"])
    pd.testing.assert_frame_equal(everyone[rest].reset_index(drop=True), test[in_arm].reset_index(drop=True))
    both = everyone[~rest].merge(test[~in_arm], on=["user", "time", "item", "slot"])
    untouched = both[both["true_probability_x"] == both["true_probability_y"]]
    assert len(untouched) > 300
    assert (untouched["label_x"] == untouched["label_y"]).all()  # common random numbers


def test_the_logged_behaviours_are_the_organic_ones_and_the_clicks(log):
    clicks = impressions(log).query("label > 0")
    logged = pd.concat([pd.read_parquet(path) for path in sorted(log.days.glob("*/behaviors.parquet"))])
    organic = [block_of(CONFIG, number).organic for number in range(CONFIG.blocks)]
    assert len(logged) == len(clicks) + sum(len(of.user) for of in organic)
    assert (logged.groupby("user")["time"].diff().dropna() >= 0).groupby(level=0).all().all()
    events = clicks.assign(time=clicks["time"] + clicks["slot"])[["user", "item", "time"]]
    assert len(events.merge(logged.drop_duplicates(), on=["user", "item", "time"])) == len(events)


def test_other_parameters_are_an_error_that_names_them(tmp_path):
    log = WorldLog(tmp_path, CONFIG)
    log.check_settings({"split": {"a": 1.0}, "shop": {"users": 3}})
    log.check_settings({"split": {"a": 1.0}, "shop": {"users": 3}})
    with pytest.raises(InputError, match=r"other parameters \(shop\); delete the folder"):
        log.check_settings({"split": {"a": 1.0}, "shop": {"users": 4}})


def test_popularity_counts_what_happened_before_the_first_impression():
    ranker = Popularity.of(CONFIG, block_of(CONFIG, 0))
    organic = block_of(CONFIG, 0).organic
    early = organic.item[organic.second < CONFIG.behavior_days * 86_400]
    assert len(early) < len(organic.item)
    counts = np.bincount(early, minlength=CONFIG.items)
    assert np.argmax(ranker.share) == np.argmax(counts)
    assert 0 < ranker.share.min() < ranker.share.max() < 1


KILLED = """
import os, sys, time
sys.path[:0] = [{tests!r}]
from closed_loop.test_world import Oracle, Path, make_world, NothingToLearn

class Slow(Oracle):
    def scores(self, batch):
        if batch.block.number == 1 and batch.visits.second.min() >= {begin}:
            print("in the middle of the day", flush=True)
            time.sleep(60)
        return super().scores(batch)

make_world(Path({folder!r}), {{"noisy": Oracle(2.0), "oracle": Slow()}}).run(NothingToLearn())
"""


@pytest.mark.slow
def test_a_run_that_is_killed_within_a_day_continues_to_the_same_bytes(log, tmp_path):
    begin = (CONFIG.behavior_days + 3) * 86_400
    script = KILLED.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path), begin=begin)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in the middle of the day\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    complete = [path.name for path in sorted((tmp_path / "days").iterdir()) if not path.name.startswith(".")]
    assert complete == [log.name(day) for day in range(3)]
    kept = (tmp_path / "days" / complete[0] / "impressions.parquet").stat().st_mtime_ns
    time.sleep(0.01)
    run(tmp_path)
    assert (tmp_path / "days" / complete[0] / "impressions.parquet").stat().st_mtime_ns == kept
    whole = contents(log.days)
    assert {name: of for name, of in contents(tmp_path / "days").items() if name in whole} == whole
