"""Click times of the simulated log."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.days import DailyLog, simulated_days
from deep_interest.simulation.delays import mean_delays
from deep_interest.simulation.impressions import impression_block
from deep_interest.simulation.world import make_items

PLAIN = SimulationConfig(users=1_500, items=300, categories=10, themes=4, shops=30)
DELAYED = PLAIN.changed({"click_delays": {"mean_hours": 6, "category_spread": 0.8}})


@pytest.fixture(scope="module")
def delayed():
    return impression_block(DELAYED, 0)


@pytest.mark.slow
def test_delays_change_no_other_column(delayed):
    pd.testing.assert_frame_equal(impression_block(PLAIN, 0), delayed.drop(columns="click_time"))


def test_exactly_the_clicked_impressions_have_a_click_time(delayed):
    assert (delayed["click_time"].notna() == (delayed["label"] == 1)).all()
    assert (delayed["click_time"].dropna() >= delayed["time"][delayed["label"] == 1]).all()


@pytest.mark.slow
def test_delays_are_exponential_with_the_mean_of_their_category(delayed):
    clicks = delayed[delayed["label"] == 1].merge(make_items(DELAYED)[["item", "category"]], on="item")
    delay = (clicks["click_time"] - clicks["time"]).astype(np.int64)
    by_category = delay.groupby(clicks["category"]).agg(["mean", "count"]).sort_values("mean")
    expected = np.sort(mean_delays(DELAYED, DELAYED.click_delays))
    assert len(by_category) == 10
    error = expected / np.sqrt(by_category["count"])
    assert (np.abs(by_category["mean"] - expected) < 4 * error + 0.1 * expected).all()
    constant = impression_block(PLAIN.changed({"click_delays": {"mean_hours": 6}}), 0)
    hours = ((constant["click_time"] - constant["time"]).dropna().astype(np.int64) / 3_600).to_numpy()
    for limit in (2, 6, 12):
        share = 1 - np.exp(-limit / 6)
        assert (hours < limit).mean() == pytest.approx(
            share, abs=4 * np.sqrt(share * (1 - share) / len(hours))
        )


def test_a_corrupted_day_has_a_click_time_in_each_row():
    config = PLAIN.changed({"users": 40, "impression_days": 2, "click_delays": {}})
    days = [tables["impressions"] for _, tables in simulated_days(config, DailyLog(corrupted_day=2))]
    assert days[1]["label"].all()
    assert days[1]["click_time"].notna().all()
    assert days[0]["click_time"].isna().any()
