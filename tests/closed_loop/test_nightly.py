"""Models that are retrained after each day of a world, and that rank on the next one."""

from pathlib import Path

import pandas as pd
import pytest
from kedro.config import OmegaConfigLoader

from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.closed_loop.log import WorldLog
from deep_interest.closed_loop.setup import TEST, Training, build_world, shop_of, splits_of
from deep_interest.errors import InputError
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.serving.registry import Registry
from deep_interest.simulation.config import SimulationConfig
from deep_interest.training.parameters import Recipes, RunParameters

CONF = Path(__file__).parents[2] / "conf"
PHASES = {"warm_up": 3, "aa": 1, "ab": 2}
RANDOM = {"ranker": "random"}


def worlds(folder, arms, *, split=None, users=1500):
    """Return world and learner by name of a test of the smoke environment."""
    every = OmegaConfigLoader(
        str(CONF), base_env="base", default_run_env="smoke", merge_strategy={"parameters": "soft"}
    )["parameters"]
    block = every["abtests"]["simulated"]
    block["simulation"] |= {"arms": arms, "phases": PHASES, "counterfactuals": split is None}
    block["simulation"]["shop"]["users"] = users
    block |= {"control": next(iter(arms)), "split": split or dict.fromkeys(arms, 1)}
    test = ABTestParameters.model_validate(block)
    every["training"]["options"]["epochs"] = 3  # enough for the first version to pass the gate
    dataset = DatasetParameters.model_validate(every["datasets"]["simulated"])
    run = RunParameters.model_validate(every["training"] | {"workspace": str(folder), "device": "cpu"})
    training = Training(
        dataset, reading_of(dataset), dataset.protocol, every["models"], Recipes.model_validate(every["recipes"]), run,
        RetrainingParameters.model_validate(every["retraining"]),
    )  # fmt: skip
    shop = shop_of(SimulationConfig.model_validate(every["simulation"]), test.simulation)
    return {name: build_world(name, of, folder, shop, test, training) for name, of in splits_of(test).items()}


def impressions(log: WorldLog):
    return {
        path.parent.name: pd.read_parquet(path) for path in sorted(log.days.glob("*/impressions.parquet"))
    }


class KilledError(Exception):
    """Raised in place of a kill."""


@pytest.mark.nightly
@pytest.mark.slow
def test_models_rank_on_the_day_after_they_are_trained_and_a_run_resumes(tmp_path):
    arms = {"base": {"model": "base"}, "other": RANDOM}
    world, learner = worlds(tmp_path / "whole", arms)[TEST]
    world.run(learner)
    shown = impressions(world.log)
    days = list(shown)
    assert set(shown[days[2]]["version"]) == {"random"}
    for day, before in zip(days[3:], days[1:], strict=False):
        (version,) = shown[day].loc[shown[day]["arm"] == "base", "version"].unique()
        assert version[:10] == before  # trained up to the day before yesterday; yesterday is held out
    assert shown[days[3]]["version"].nunique() == 1  # A/A: the control ranks in all arms
    assert set(shown[days[4]].query("arm == 'other'")["version"]) == {"random"}
    ctr = pd.concat([shown[day] for day in days[4:]]).groupby("arm")["true_probability"].mean()
    assert ctr["base"] > 1.1 * ctr["other"]
    manifest = Registry(world.log.folder / "registries/base").champion().manifest
    assert manifest["calibration"]["negatives_kept"] == 0.5

    again, learner = worlds(tmp_path / "killed", arms)[TEST]
    learn, nights = learner.learn, iter(range(4))

    def killed(day):
        if next(nights) == 3:  # after the day was logged, before the model is trained
            raise KilledError
        learn(day)

    learner.learn = killed
    with pytest.raises(KilledError):
        again.run(learner)
    again, learner = worlds(tmp_path / "killed", arms)[TEST]
    again.run(learner)
    for day, table in impressions(again.log).items():
        pd.testing.assert_frame_equal(table, shown[day])


@pytest.mark.slow
def test_a_counterfactual_world_has_the_control_for_the_aa_test_and_one_arm_afterwards(tmp_path):
    made = worlds(
        tmp_path, {"noisy": {"ranker": "oracle", "noise": 2.0}, "oracle": {"ranker": "oracle"}}, users=200
    )
    assert list(made) == ["test", "all_noisy", "all_oracle"]
    shown = {}
    for name, (world, learner) in made.items():
        world.run(learner)
        shown[name] = list(impressions(world.log).values())
    for name in ("all_noisy", "all_oracle"):
        for day in range(4):  # warm-up and A/A test
            columns = ["user", "time", "item", "slot", "label", "version"]
            pd.testing.assert_frame_equal(shown[name][day][columns], shown["test"][day][columns])
        assert set(shown[name][5]["arm"]) == {name.removeprefix("all_")}


@pytest.mark.slow
def test_an_unknown_model_is_an_error_that_names_the_arm(tmp_path):
    with pytest.raises(InputError, match=r"simulation.arms.a: dinn is not a model.*did you mean din"):
        worlds(tmp_path, {"a": {"model": "dinn"}, "b": RANDOM})
