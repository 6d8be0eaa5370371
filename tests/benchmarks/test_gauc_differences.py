"""The table of differences in GAUC, over all samples and within days."""

import numpy as np
import pandas as pd
import pytest
from gauc_differences import ensemble, gauc_differences, read

HOUR = 3_600_000
NEW_YEAR = 1_704_067_200_000  # of 2024, UTC, in milliseconds


def write(folder, times, labels, scores):
    """Samples of users who each have the same two rows, and one model's predictions with two equal seeds."""
    users = np.repeat(np.arange(5), 2)
    samples = pd.DataFrame(
        {"user": users, "item": 1, "label": labels * 5, "time": times * 5, "split": "test"}
    )
    (folder / "05_model_input/shop").mkdir(parents=True)
    samples.to_parquet(folder / "05_model_input/shop/samples.parquet")
    for model, values in scores.items():
        (folder / "07_model_output/shop" / model).mkdir(parents=True)
        predictions = samples[["user", "item"]].assign(seed_1=values * 5, seed_2=values * 5)
        predictions.to_parquet(folder / "07_model_output/shop" / model / "predictions.parquet")


def test_only_rows_of_the_same_day_in_the_time_zone_are_compared_within_days(tmp_path):
    # 20:00 and 22:00 UTC are 4:00 and 6:00 of the next day in Shanghai
    write(
        tmp_path,
        [NEW_YEAR + 20 * HOUR, NEW_YEAR + 22 * HOUR],
        [1, 0],
        {"right": [0.9, 0.1], "wrong": [0.1, 0.9]},
    )
    test, fits = read(tmp_path, "shop", ["right", "wrong"], time_zone="Asia/Shanghai")
    assert set(test["day"]) == {"2024-01-02"}
    table = gauc_differences(test, fits, base="wrong")
    assert table.loc["right", "GAUC within days"] == table.loc["right", "GAUC"] == "1.0000"
    assert table.loc["right", "difference in GAUC within days"].startswith("+1.0000")
    assert table.loc["wrong", "difference in GAUC within days"] == "–"


def test_the_days_are_those_of_the_time_zone(tmp_path):
    write(tmp_path, [NEW_YEAR + 14 * HOUR, NEW_YEAR + 18 * HOUR], [1, 0], {"right": [0.9, 0.1]})
    assert set(read(tmp_path, "shop", ["right"], time_zone="UTC")[0]["day"]) == {"2024-01-01"}
    assert set(read(tmp_path, "shop", ["right"], time_zone="Asia/Shanghai")[0]["day"]) == {
        "2024-01-01",
        "2024-01-02",
    }


def test_without_a_time_zone_days_are_omitted(tmp_path):
    write(tmp_path, [HOUR, 2 * HOUR], [1, 0], {"right": [0.9, 0.1], "half": [0.5, 0.5]})
    table = gauc_differences(*read(tmp_path, "shop", ["right", "half"]), base="half")
    assert list(table) == ["GAUC", "difference in GAUC"]
    assert table["GAUC"].to_dict() == {"right": "1.0000", "half": "0.5000"}
    assert table.loc["right", "difference in GAUC"].startswith("+0.5000 [")


def test_a_model_that_was_not_run_is_named(tmp_path):
    write(tmp_path, [HOUR, HOUR], [1, 0], {"right": [0.9, 0.1]})
    with pytest.raises(SystemExit, match=r"other/predictions\.parquet: not found; run the model first"):
        read(tmp_path, "shop", ["other"], time_zone="UTC")


def test_an_ensemble_is_the_mean_of_the_log_odds_of_its_seeds():
    # log-odds of 0.8 and 0.2 are ±ln 4, of 0.9 ln 9; a probability of 1 stays finite
    probabilities = np.array([[0.8, 0.9, 1.0], [0.2, 0.5, 0.5]], np.float32)
    mean = ensemble(probabilities)
    assert mean.shape == (1, 3)
    np.testing.assert_allclose(mean[0, :2], [0, np.log(9) / 2], atol=1e-6)
    assert np.isfinite(mean[0, 2])


def test_the_seeds_of_an_ensemble_correct_each_other(tmp_path):
    # each seed misorders one user's rows by a little and orders the other's by much
    test = pd.DataFrame({"user": [0, 0, 1, 1], "label": [1, 0, 1, 0]})
    seeds = np.array([[0.9, 0.1, 0.4, 0.5], [0.4, 0.5, 0.9, 0.1]])
    base = np.full((1, 4), 0.5)
    assert gauc_differences(test, {"m": seeds, "b": base}, base="b").loc["m", "GAUC"] == "0.5000"
    assert gauc_differences(test, {"m": ensemble(seeds), "b": base}, base="b").loc["m", "GAUC"] == "1.0000"


def test_the_smallest_difference_at_a_level_is_that_of_the_variance_over_users():
    # differences to the base by user: 1/2, -1/2, 1/2, -1/2, so that the variance of their mean is (1/3) / 4;
    # the quantiles of the normal distribution are 1.960 (level 0.05) and 0.842 (power 0.8), together 2.802
    test = pd.DataFrame({"user": np.repeat(np.arange(4), 2), "label": [1, 0] * 4})
    fits = {"m": np.array([[0.9, 0.1, 0.1, 0.9] * 2]), "b": np.full((1, 8), 0.5)}
    table = gauc_differences(test, fits, base="b", level=0.05)
    assert float(table.loc["m", "smallest difference in GAUC"]) == pytest.approx(2.802 / 12**0.5, abs=1e-3)
    assert table.loc["b", "smallest difference in GAUC"] == "–"
