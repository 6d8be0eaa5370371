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
    return dict(simulated_days(CONFIG, DailyLog(new_goods=0.1)))


def test_the_days_are_the_log_cut_at_midnight(days):
    for name, blocks in (("behaviors", behavior_blocks), ("impressions", impression_blocks)):
        whole = pd.concat(blocks(CONFIG))
        cut = pd.concat([tables[name] for tables in days.values()])
        assert len(cut) == len(whole)
        keys = ["user", "time", *(["true_probability", "label"] if name == "impressions" else [])]
        one, other = (table.sort_values(keys)[keys].reset_index(drop=True) for table in (whole, cut))
        pd.testing.assert_frame_equal(one, other)
    assert list(days) == [f"2024-03-0{k}" for k in range(1, 7)]
    for day, tables in days.items():
        assert set(pd.to_datetime(tables["impressions"]["time"], unit="s").dt.date.astype(str)) == {day}
        assert (
            tables["behaviors"]["time"]
            < tables["impressions"]["time"].min() // SECONDS_PER_DAY * SECONDS_PER_DAY + SECONDS_PER_DAY
        ).all()


def test_a_good_that_is_listed_anew_has_a_new_id_and_its_old_category_and_shop(days):
    catalogue = make_items(CONFIG).set_index("item")
    known: set[int] = set()
    for number, tables in enumerate(days.values()):
        items = tables["items"].set_index("item")
        assert not known & set(items.index)
        known |= set(items.index)
        assert len(items) == 80 if number == 0 else 0 < len(items) < 30
        old = (items.index - 1) % 80 + 1
        np.testing.assert_array_equal(items["category"], catalogue.loc[old, "category"])
        np.testing.assert_array_equal(items["shop"], catalogue.loc[old, "shop"])
        assert set(tables["impressions"]["item"]) | set(tables["behaviors"]["item"]) <= known


def test_from_its_new_listing_on_the_old_id_is_gone(days):
    tables = list(days.values())
    for number in range(1, 6):
        new = tables[number]["items"]["item"].to_numpy()
        assert not set(new - 80) & set(tables[number]["impressions"]["item"])


def test_on_the_corrupted_day_alone_everything_is_clicked():
    days = dict(simulated_days(CONFIG, DailyLog(corrupted_day=3)))
    rates = [tables["impressions"]["label"].mean() for tables in days.values()]
    assert rates[2] == 1
    assert max(rate for k, rate in enumerate(rates) if k != 2) < 0.5
    with pytest.raises(InputError, match="corrupted_day: found 7, but the log has 6 days"):
        next(simulated_days(CONFIG, DailyLog(corrupted_day=7)))
