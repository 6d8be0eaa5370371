"""Settings of the curves: their values, the training samples of each, and the options of each."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.training import small_data

from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.worth.parameters import WorthParameters
from deep_interest.worth.settings import (
    Axis,
    Setting,
    axes_of,
    days_before,
    experiment_of,
    samples_of,
    settings_of,
)

DAY = 86_400


def experiment(model="din", **run) -> Experiment:
    recipe = Recipe(training={"max_len": 20}, model={"embedding_dim": 8})
    return Experiment("shop", model, RowOptions({}), recipe, (1, 2), RunParameters(**run))


def dated(days: int = 6) -> pd.DataFrame:
    """Return samples at noon of ``days`` training days, a day of validation and a day of test, two users a day."""
    day = np.repeat(np.arange(days + 2), 2)
    split = np.where(day < days, "train", np.where(day == days, "validation", "test"))
    return pd.DataFrame({"user": np.arange(len(day)) % 3, "time": day * DAY + DAY // 2, "split": split})


def test_axes_have_the_models_own_value():
    axes = axes_of(experiment(), dated(), WorthParameters(), by_day=True)
    assert axes == (
        Axis("days", (1, 2, 3, 6), 6),  # 1/8, 1/4 and 1/2 of six days
        Axis("max_len", (5, 10, 20), 20),  # longer ones than the model's own are omitted
        Axis("embedding_dim", (4, 8, 16, 32), 8),
    )
    keys = [setting.key for setting in settings_of(axes)]
    assert sorted(keys) == sorted(
        ["days_1", "days_2", "days_3", "full", "max_len_5", "max_len_10", "embedding_dim_4", "embedding_dim_16", "embedding_dim_32"]
    )  # fmt: skip


def test_users_replace_days_that_do_not_exist():
    samples = small_data().samples
    for by_day, table in ((False, samples), (True, dated(1))):
        axes = axes_of(experiment(), table, WorthParameters(max_len=(), embedding_dim=[]), by_day=by_day)
        assert axes == (Axis("users", (0.125, 0.25, 0.5, 1.0), 1.0),)


def test_a_model_without_embeddings_of_one_width_has_no_such_axis():
    axes = axes_of(experiment("lr"), dated(), WorthParameters(), by_day=True)
    assert [axis.name for axis in axes] == ["days", "max_len"]


def test_days_are_counted_back_from_the_first_held_out_sample():
    samples = dated(2)
    assert days_before(samples).tolist() == [1, 1, 0, 0]
    at_midnight = samples.assign(time=[0, 1, DAY, 2 * DAY - 1, 2 * DAY, 2 * DAY, 3 * DAY, 3 * DAY])
    assert days_before(at_midnight).tolist() == [1, 1, 0, 0]


def test_fewer_days_are_the_newest_ones():
    samples = dated(4)
    kept = samples_of(samples, Setting(Axis("days", (1, 4), 4), 1), seed=1)
    train = kept[kept["split"] == "train"]
    assert (train["time"] // DAY).tolist() == [3, 3]
    pd.testing.assert_frame_equal(
        kept[kept["split"] != "train"].reset_index(drop=True),
        samples[samples["split"] != "train"].reset_index(drop=True),
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 100), share=st.sampled_from([0.01, 0.125, 0.3, 0.5]))
def test_shares_of_users_are_nested_and_leave_the_test_set_alone(seed, share):
    samples = small_data().samples
    axis = Axis("users", (share, 2 * share, 1.0), 1.0)
    small, large, full = (samples_of(samples, Setting(axis, value), seed=seed) for value in axis.values)
    users = [set(part.loc[part["split"] == "train", "user"]) for part in (small, large, full)]
    assert users[0] <= users[1] <= users[2]
    assert len(users[0]) == max(1, round(share * len(users[2])))
    for part in (small, large):
        held_out = part[part["split"] != "train"].reset_index(drop=True)
        expected = samples[samples["split"] != "train"].reset_index(drop=True)
        pd.testing.assert_frame_equal(held_out, expected)


def test_each_seed_draws_users_of_its_own():
    samples, setting = small_data().samples, Setting(Axis("users", (0.5, 1.0), 1.0), 0.5)
    drawn = [
        frozenset(part.loc[part["split"] == "train", "user"])
        for part in (samples_of(samples, setting, seed=seed) for seed in range(5))
    ]
    assert len(set(drawn)) == 5


def test_a_setting_changes_one_option_alone():
    own = experiment(options={"max_len": 50})  # the run's options override those of recipes
    config, training = own.config_and_options()
    shorter = experiment_of(own, Setting(Axis("max_len", (5, 50), 50), 5))
    assert shorter.config_and_options() == (config, training.model_copy(update={"max_len": 5}))
    wider = experiment_of(own, Setting(Axis("embedding_dim", (8, 32), 8), 32))
    assert wider.config_and_options() == (config.model_copy(update={"embedding_dim": 32}), training)
    full = experiment_of(own, Setting(Axis("max_len", (5, 50), 50), 50))
    assert full == replace(own, variant="_worth/full")
    assert [each.model_variant for each in (shorter, wider)] == ["din_worth/max_len_5", "din_worth/embedding_dim_32"]  # fmt: skip


@pytest.mark.parametrize("options", [{"shares": [0]}, {"shares": [1.5]}, {"max_len": [0]}, {"seeds": []}, {"days": [1]}])  # fmt: skip
def test_invalid_parameters_are_rejected(options):
    with pytest.raises(ValidationError):
        WorthParameters.model_validate(options)
