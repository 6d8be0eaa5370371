"""The simulated log in daily deliveries."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.simulation.behaviors import behavior_blocks
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.days import DailyLog, simulated_days
from deep_interest.simulation.impressions import impression_blocks
from deep_interest.simulation.world import make_items

CONFIG = SimulationConfig(
    users=120, items=80, categories=10, themes=4, shops=15, impression_days=6, mean_impressions=30
)


@pytest.fixture(scope="module")
def days():
    return dict(simulated_days(CONFIG, DailyLog(new_items=0.1)))


def test_the_days_are_the_log_split_at_midnight(days):
    for name, blocks in (("behaviors", behavior_blocks), ("impressions", impression_blocks)):
        log = pd.concat(blocks(CONFIG))
        split = pd.concat([tables[name] for tables in days.values()])
        assert len(split) == len(log)
        keys = ["user", "time", *(["true_probability", "label"] if name == "impressions" else [])]
        expected, actual = (table.sort_values(keys)[keys].reset_index(drop=True) for table in (log, split))
        pd.testing.assert_frame_equal(actual, expected)
    assert list(days) == [f"2024-03-0{k}" for k in range(1, 7)]
    for day, tables in days.items():
        assert set(pd.to_datetime(tables["impressions"]["time"], unit="s").dt.date.astype(str)) == {day}
        assert (
            tables["behaviors"]["time"]
            < tables["impressions"]["time"].min() // SECONDS_PER_DAY * SECONDS_PER_DAY + SECONDS_PER_DAY
        ).all()


def test_a_relisted_item_has_a_new_id_with_the_same_category_and_shop(days):
    catalogue = make_items(CONFIG).set_index("item")
    seen_ids: set[int] = set()
    for index, tables in enumerate(days.values()):
        items = tables["items"].set_index("item")
        assert not seen_ids & set(items.index)
        seen_ids |= set(items.index)
        assert len(items) == 80 if index == 0 else 0 < len(items) < 30
        original_ids = (items.index - 1) % 80 + 1
        np.testing.assert_array_equal(items["category"], catalogue.loc[original_ids, "category"])
        np.testing.assert_array_equal(items["shop"], catalogue.loc[original_ids, "shop"])
        assert set(tables["impressions"]["item"]) | set(tables["behaviors"]["item"]) <= seen_ids


def test_the_old_id_of_a_relisted_item_does_not_occur_again(days):
    tables = list(days.values())
    for index in range(1, 6):
        new_ids = tables[index]["items"]["item"].to_numpy()
        assert not set(new_ids - 80) & set(tables[index]["impressions"]["item"])


def test_every_impression_of_the_corrupted_day_alone_is_clicked():
    days = dict(simulated_days(CONFIG, DailyLog(corrupted_day=3)))
    rates = [tables["impressions"]["label"].mean() for tables in days.values()]
    assert rates[2] == 1
    assert max(rate for k, rate in enumerate(rates) if k != 2) < 0.5
    with pytest.raises(InputError, match="corrupted_day is 7, expected at most 6"):
        next(simulated_days(CONFIG, DailyLog(corrupted_day=7)))


def test_new_goods_is_an_alias_of_new_items():
    assert DailyLog.model_validate({"new_goods": 0.2}) == DailyLog(new_items=0.2)
