"""The curves of a model: means, paired differences to the largest value, and gains over the next smaller one."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_interest.evaluation import difference_interval, holm, per_user_auc, variance_over_seeds
from deep_interest.evaluation.evidence import EvaluationParameters
from deep_interest.evaluation.significance import mean_over_seeds
from deep_interest.evaluation.worth_table import format_value, worth_table

USERS, LABELS = np.repeat(np.arange(60), 4), np.tile([1, 0, 1, 0], 60)
TEST = pd.DataFrame({"user": USERS, "label": LABELS})
SEEDS = (1, 2)


def fits(values: dict[str, dict[float, str]], seeds=SEEDS) -> pd.DataFrame:
    """Return the table of fits of the settings ``{axis: {value: setting}}``."""
    return pd.DataFrame(
        [
            {"axis": axis, "value": value, "setting": setting, "seed": seed, "samples": 10 * seed, "users": 5, "validation_gauc": 0.6 + seed,
             "train_seconds": 2.0 * seed}
            for axis, settings in values.items() for value, setting in settings.items() for seed in seeds
        ]
    )  # fmt: skip


def scores(strengths: dict[str, float], seeds=SEEDS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            f"{setting}_seed_{seed}": 1 / (1 + np.exp(-strength * LABELS - rng.normal(size=len(LABELS))))
            for setting, strength in strengths.items()
            for seed in seeds
        }
    )


VALUES = {"days": {4: "days_4", 1: "days_1", 8: "full"}, "max_len": {5: "max_len_5", 100: "full"}}
SCORES = scores({"days_1": 0.1, "days_4": 1.0, "full": 1.2, "max_len_5": 1.2})


def test_gauc_of_two_users_by_hand():
    test = pd.DataFrame({"user": [1, 1, 2, 2, 2], "label": [1, 0, 1, 0, 0]})
    answers = pd.DataFrame(
        {"days_1_seed_1": [0.1, 0.2, 0.5, 0.1, 0.9], "full_seed_1": [0.9, 0.2, 0.5, 0.1, 0.9]}
    )
    table = worth_table(test, fits({"days": {1: "days_1", 2: "full"}}, seeds=(1,)), answers)
    # AUCs 0 and 1/2 of 2 and 3 samples; then 1 and 1/2
    assert table["gauc"].tolist() == pytest.approx([0.5 * 3 / 5, (2 + 0.5 * 3) / 5])
    assert table["gain"].tolist() == pytest.approx([np.nan, 2 / 5], nan_ok=True)
    assert table["difference"].tolist() == pytest.approx([-2 / 5, np.nan], nan_ok=True)
    assert table["interval_note"].iloc[0].startswith("the test set has only 2 users")
    assert table[["difference_low", "gain_low"]].isna().all(axis=None)


def test_differences_and_gains_are_paired_over_users_and_seeds():
    table = worth_table(TEST, fits(VALUES), SCORES)
    assert table["axis"].tolist() == ["days"] * 3 + ["max_len"] * 2
    assert table["value"].tolist() == [1, 4, 8, 5, 100]
    assert table["setting"].tolist() == ["days_1", "days_4", "full", "max_len_5", "full"]
    assert set(table["samples"]) == {15} and set(table["train_seconds"]) == {3}
    aucs = {
        setting: [per_user_auc(USERS, LABELS, SCORES[f"{setting}_seed_{seed}"]) for seed in SEEDS]
        for setting in ("days_1", "days_4", "full")
    }

    def interval(one, other):
        seeds = [variance_over_seeds(aucs[name]) for name in (one, other)]
        return difference_interval(mean_over_seeds(aucs[one]), mean_over_seeds(aucs[other]), seeds=seeds)

    expected = [interval("days_1", "full"), interval("days_4", "full")]
    for row, found in zip(table.itertuples(), expected, strict=False):
        assert (row.difference, row.difference_low) == pytest.approx((found.difference, found.low))
        assert row.difference_high == pytest.approx(found.high)
    assert table["p_holm"].tolist()[:2] == pytest.approx(holm([of.p_value for of in expected]).tolist())
    gain = interval("full", "days_4")
    assert table.loc[2, ["gain", "gain_low", "gain_high"]].tolist() == pytest.approx(
        [gain.difference, gain.low, gain.high]
    )
    assert table["gain"].isna().tolist() == [True, False, False, True, False]


def test_one_seed_gives_intervals_over_users_without_p_values():
    table = worth_table(TEST, fits(VALUES, seeds=(1,)), SCORES)
    assert table["difference_low"].notna().tolist() == [True, True, False, True, False]
    assert table["p_holm"].isna().all()
    assert table["interval_note"].iloc[0].startswith("over users only")


@pytest.mark.slow
@settings(max_examples=8)
@given(seed=st.integers(0, 1000), count=st.integers(2, 4))
def test_settings_with_the_same_scores_differ_by_nothing(seed, count):
    answers = np.random.default_rng(seed).random(len(LABELS))
    values = {float(index): f"days_{index}" for index in range(count)}
    same = pd.DataFrame({f"{name}_seed_{k}": answers for name in values.values() for k in SEEDS})
    table = worth_table(TEST, fits({"days": values}), same, minimum=EvaluationParameters(minimum_users=2))
    assert table["gauc"].nunique() == 1
    assert (table["gain"].dropna() == 0).all() and (table["p_holm"].dropna() == 1).all()


def test_values_are_written_by_their_axis():
    assert [format_value("users", 0.125), format_value("days", 1200.0), format_value("max_len", 5)] == ["12.5 %", "1,200", "5"]  # fmt: skip
