"""A day of the simulated shop: visits, what a ranker may know, clicks from the true probabilities, feedback."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from deep_interest.closed_loop.day import Shop, simulate_day
from deep_interest.closed_loop.rankers import Oracle, Popularity, Random, VisitBatch
from deep_interest.simulation.clicks import log_odds
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.impressions import click_bias
from deep_interest.simulation.shop_parameters import AuctionParameters, TrafficParameters
from deep_interest.simulation.visits import history_ends, make_block, merge_events
from deep_interest.simulation.world import make_world

CONFIG = SimulationConfig(
    users=800, items=200, categories=20, themes=5, shops=30, mean_behaviors=15, behavior_days=10, impression_days=4,
    clicks={"target_ctr": 0.15},
)  # fmt: skip
SHOP = Shop(CONFIG, TrafficParameters(visits=1.5, candidates=12), AuctionParameters())
BLOCK = make_block(CONFIG, 0)
NOTHING = Events(*(np.zeros(0, np.int64) for _ in range(3)))
ONE_ARM = np.zeros(CONFIG.users, np.int64)
KEYS = ["user", "time"]


@dataclass
class Spy:
    """Ranks by the true probability, and keeps the batches."""

    batches: list[VisitBatch] = field(default_factory=list)
    version: str = "spy"

    def scores(self, batch):
        self.batches.append(batch)
        return batch.probability


def simulate(ranker, *, day=0, shop=SHOP, clicks=NOTHING):
    return simulate_day(shop, BLOCK, clicks, day, ONE_ARM, [ranker])


@pytest.fixture(scope="module")
def oracle_day():
    return simulate(Oracle())


def test_clicks_are_drawn_from_the_probability_and_the_examination_of_the_slot(oracle_day):
    shown = oracle_day.impressions
    by_slot = shown.groupby("slot")
    variance = (shown["true_probability"] * (1 - shown["true_probability"])).groupby(shown["slot"]).sum()
    error = (by_slot["label"].sum() - by_slot["true_probability"].sum()) / variance**0.5
    assert error.abs().max() < 4
    assert shown["label"].sum() > 300
    deciles = pd.qcut(shown["true_probability"], 10)
    ratio = (
        shown["label"].groupby(deciles, observed=True).sum()
        / shown["true_probability"].groupby(deciles, observed=True).sum()
    )
    assert ratio.iloc[-5:].to_numpy() == pytest.approx(1, abs=0.25)


def test_a_slot_reduces_the_probability_by_its_examination(oracle_day):
    auction = AuctionParameters(examination=(1.0, 1.0, 1.0, 1.0))
    always = simulate(Oracle(), shop=Shop(CONFIG, SHOP.traffic, auction)).impressions
    first = (
        always.groupby("user")["time"].transform("min") == always["time"]
    )  # later visits depend on clicks before
    pairs = always[first].merge(oracle_day.impressions, on=[*KEYS, "item", "slot"])
    assert len(pairs) == first.sum()
    examination = np.array([1.0, 0.75, 0.6, 0.5])[pairs["slot"] - 1]
    np.testing.assert_allclose(
        pairs["true_probability_y"], examination * pairs["true_probability_x"], rtol=1e-6
    )
    assert not (
        pairs["label_y"] > pairs["label_x"]
    ).any()  # the same draw: a click with less examination is one with more


def test_revenue_is_the_price_of_the_clicks(oracle_day):
    shown, sums = oracle_day.impressions, oracle_day.exposures
    assert (shown["price"] > 0).equals(shown["label"] > 0)
    assert (shown["price"] <= shown["bid"] + 1e-9).all()
    assert sums["revenue"].sum() == pytest.approx(shown["price"].sum())
    assert sums["clicks"].sum() == shown["label"].sum()
    assert sums["impressions"].sum() == len(shown)
    assert sums["expected_clicks"].sum() == pytest.approx(shown["true_probability"].sum(), rel=1e-5)


def test_visits_and_candidates_depend_neither_on_the_rankers_nor_on_their_number(oracle_day):
    three = simulate_day(
        SHOP,
        BLOCK,
        NOTHING,
        0,
        np.arange(CONFIG.users) % 3,
        [Random(), Oracle(), Popularity.of(CONFIG, BLOCK)],
    )
    visits = [
        of.impressions[[*KEYS, "pid", "hour"]].drop_duplicates(ignore_index=True)
        for of in (three, oracle_day)
    ]
    pd.testing.assert_frame_equal(*visits)
    same_arm = three.impressions[three.impressions["arm"] == 1].drop(columns="arm")
    users = oracle_day.impressions["user"].isin(same_arm["user"])
    pd.testing.assert_frame_equal(
        same_arm.reset_index(drop=True),
        oracle_day.impressions[users].drop(columns="arm").reset_index(drop=True),
    )
    pd.testing.assert_frame_equal(simulate(Oracle()).impressions, oracle_day.impressions)


def test_another_seed_gives_another_day(oracle_day):
    config = CONFIG.changed({"seed": 8})
    other = simulate_day(
        Shop(config, SHOP.traffic, SHOP.auction), make_block(config, 0), NOTHING, 0, ONE_ARM, [Oracle()]
    )
    assert not other.impressions[KEYS].equals(oracle_day.impressions[KEYS])


def test_a_click_is_a_behaviour_of_later_visits_only():
    spy = Spy()
    found = simulate(spy)
    clicked = found.impressions[found.impressions["label"] > 0]
    happened = set(zip(clicked["user"] - 1, clicked["time"] + clicked["slot"] - CONFIG.origin, strict=True))
    assert happened == set(zip(found.clicks.user, found.clicks.second, strict=True))
    assert len(spy.batches) > 2
    seen = 0
    for batch in spy.batches:
        known = set(zip(batch.behaviors.user, batch.behaviors.second, strict=True)) & happened
        visit = dict(zip(batch.visits.user, batch.visits.second, strict=True))
        assert all(second < visit[user] for user, second in known)
        assert known == {
            (user, second) for user, second in happened if user in visit and second < visit[user]
        }
        seen += len(known)
    assert seen > 20


def test_clicks_of_earlier_days_are_behaviours_and_change_what_is_clicked():
    first = simulate(Oracle())
    with_clicks, without = (simulate(Oracle(), day=1, clicks=clicks) for clicks in (first.clicks, NOTHING))
    assert with_clicks.exposures["oracle_clicks"].sum() > without.exposures["oracle_clicks"].sum()
    assert (with_clicks.exposures["user"] == without.exposures["user"]).all()


def test_the_true_log_odds_are_those_of_a_loop_over_the_earlier_behaviours():
    spy = Spy()
    simulate(spy, clicks=simulate(Oracle()).clicks, day=1)
    world, clicks, checked = make_world(CONFIG), CONFIG.clicks, 0
    batch = spy.batches[1]
    visits, behaviors = batch.visits, batch.behaviors
    theme, stage = world.category_theme, world.path_start
    for row in range(0, len(visits), 40):
        own = (behaviors.user == visits.user[row]) & (behaviors.second < visits.second[row])
        for column in (0, 7):
            candidate = visits.items[row, column]
            category = world.item_category[candidate]
            total = 0.0
            for item, second in zip(behaviors.item[own], behaviors.second[own], strict=True):
                own_category = world.item_category[item]
                follows = category == own_category + 1 and stage[theme[category]] != category
                matches = (
                    clicks.theme_weight * (theme[own_category] == theme[category])
                    + clicks.next_weight * follows
                    + clicks.category_weight * (own_category == category)
                    + clicks.style_weight
                    * (own_category == category and world.item_style[item] == world.item_style[candidate])
                    + clicks.shop_weight * (world.item_shop[item] == world.item_shop[candidate])
                )
                total += matches * 2 ** (
                    -(visits.second[row] - second) / (clicks.half_life_days * SECONDS_PER_DAY)
                )
            expected = log_odds(
                CONFIG, world, BLOCK.users, user=visits.user[row : row + 1], item=np.array([candidate]), pid=visits.pid[row : row + 1],
                hour=visits.hour[row : row + 1], relevance=np.array([total]),
            )  # fmt: skip
            assert batch.log_odds[row, column] == pytest.approx(
                float(expected[0]) + click_bias(CONFIG), rel=1e-9
            )
            checked += total > 0
    assert checked > 3


def test_no_ranker_shows_more_value_than_the_oracle(oracle_day):
    rankers = (Random(), Popularity.of(CONFIG, BLOCK), Oracle(noise=1.0))
    for ranker in rankers:
        sums = simulate(ranker).exposures
        assert (sums["value"] <= sums["oracle_value"] + 1e-9).all()
        assert sums["value"].sum() < 0.97 * oracle_day.exposures["value"].sum()
        assert sums["expected_revenue"].sum() < oracle_day.exposures["expected_revenue"].sum()
        assert sums["expected_clicks"].sum() < oracle_day.exposures["expected_clicks"].sum()
    np.testing.assert_allclose(oracle_day.exposures["value"], oracle_day.exposures["oracle_value"])


def test_the_best_of_exploration_and_of_noise_is_reproducible():
    shop = Shop(CONFIG, SHOP.traffic, AuctionParameters(exploration=0.3))
    shown = simulate(Oracle(noise=0.5), shop=shop).impressions
    pd.testing.assert_frame_equal(shown, simulate(Oracle(noise=0.5), shop=shop).impressions)
    visits = shown.groupby(KEYS)["propensity"].min()
    assert (
        0.25 < (visits < 0.3).mean() < 0.4
    )  # a visit that explores shows at least one candidate that is not the best


def test_a_history_has_the_behaviours_strictly_before_the_visit():
    events = Events(np.array([0, 0, 0, 2, 2]), np.arange(5), np.array([10, 20, 30, 5, 20]))
    users, seconds = np.array([0, 0, 1, 2, 2, 2]), np.array([20, 31, 99, 5, 6, 21])
    assert history_ends(events, users, seconds).tolist() == [1, 3, 3, 3, 4, 5]


def test_merged_events_are_ordered_by_user_and_time():
    clicks = Events(np.array([0, 1, 2]), np.array([7, 8, 9]), np.array([20, 3, 1]))
    found = merge_events(Events(np.array([0, 0, 2]), np.array([1, 2, 3]), np.array([20, 30, 5])), clicks)
    assert found.user.tolist() == [0, 0, 0, 1, 2, 2]
    assert found.item.tolist() == [1, 7, 2, 8, 9, 3]  # at equal times the click comes after
    assert found.second.tolist() == [20, 20, 30, 3, 1, 5]
