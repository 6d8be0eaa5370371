"""One day of a block of users: visits, ranking, auction, clicks, and the log of what was shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.closed_loop.rankers import Ranker, VisitBatch
from deep_interest.simulation.auction import Slots, run_auctions
from deep_interest.simulation.config import SECONDS_PER_DAY, SimulationConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.shop_parameters import AuctionParameters, TrafficParameters
from deep_interest.simulation.visits import (
    DayVisits,
    Draw,
    ShopBlock,
    bids_of_day,
    draw_day,
    merge_events,
    uniforms,
)
from deep_interest.simulation.world import make_world

EXPOSURE_SUMS = (
    "impressions", "clicks", "revenue", "expected_clicks", "expected_revenue", "oracle_clicks", "oracle_revenue", "value", "oracle_value",
)  # fmt: skip
"""Sums by user and day: what happened, what the shown slots were worth on average, and what the oracle's slots would have been worth."""


@dataclass(frozen=True)
class Shop:
    """The simulated shop.

    Attributes:
        config: users, items, behaviours and click probabilities.
        traffic: visits and candidates.
        auction: auction for the slots.
    """

    config: SimulationConfig
    traffic: TrafficParameters
    auction: AuctionParameters


@dataclass(frozen=True)
class DayOfBlock:
    """What happened on a day.

    Attributes:
        impressions: one row for each impression, ordered by user and time, see `simulate_day`.
        exposures: one row for each user with a visit: ``user``, ``arm`` (index) and `EXPOSURE_SUMS`.
        clicks: the clicks as behaviours, ordered by user and time.
    """

    impressions: pd.DataFrame
    exposures: pd.DataFrame
    clicks: Events


def simulate_day(
    shop: Shop, block: ShopBlock, clicks: Events, day: int, arms: np.ndarray, rankers: Sequence[Ranker]
) -> DayOfBlock:
    """Simulate a day of a block.

    Columns of the impressions: ``user``, ``item``, ``time``; ``pid``, ``hour``, ``slot`` (from 1); ``label``; ``bid``, ``ctr`` (predicted),
    ``score``, ``price`` (paid, 0 without a click); ``propensity``; ``arm`` (index), ``version``; ``true_probability`` (of the click in the
    slot). All impressions of a visit have its time, and a click counts as a behaviour ``slot`` seconds later.

    Args:
        shop: the shop.
        block: users and their behaviours.
        clicks: their clicks on earlier days, ordered by user and time.
        day: day, from 0 on the first day with impressions.
        arms: ``(n,)`` arm of each user of the block.
        rankers: ranker of each arm.
    """
    visits = draw_day(shop.config, block, shop.traffic, day)
    bids = bids_of_day(shop.config, shop.auction, day)
    end = (shop.config.behavior_days + day + 1) * SECONDS_PER_DAY
    known = merge_events(_rows(block.organic, block.organic.second < end), clicks)
    impressions, exposures, clicked = [], [], _no_events()
    for rows in _rounds(visits):
        batch = _batch(shop.config, block, known, clicked, visits.part(rows))
        arm = arms[batch.visits.user]
        scores = np.empty(batch.visits.items.shape)
        batch.probability  # noqa: B018  # once for all arms
        for index, ranker in enumerate(rankers):
            if len(chosen := np.flatnonzero(arm == index)):
                scores[chosen] = ranker.scores(batch.part(chosen))
        shown, sums = _show(shop, batch, scores, bids, arm)
        versions = np.array([ranker.version for ranker in rankers])
        impressions.append(shown.assign(version=versions[shown["arm"]]))
        exposures.append(sums)
        clicked = merge_events(clicked, _clicks_of(shown, block, shop.config))
    table = pd.concat(impressions, ignore_index=True)
    return DayOfBlock(
        table.sort_values(["user", "time", "slot"], ignore_index=True, kind="stable"),
        pd.concat(exposures).groupby(["user", "arm"], as_index=False).sum(),
        clicked,
    )


def _rounds(visits: DayVisits) -> Iterator[np.ndarray]:
    """Yield the rows of the first visits of all users, then those of the second ones, and so on; at least once."""
    for number in range(1 + int(visits.round.max(initial=0))):
        yield np.flatnonzero(visits.round == number)


def _batch(
    config: SimulationConfig, block: ShopBlock, known: Events, clicked: Events, visits: DayVisits
) -> VisitBatch:
    """Return the batch with the behaviours of the users that visit, among them the clicks in earlier rounds."""
    comes = np.zeros(len(block.users.ids), bool)
    comes[visits.user] = True
    behaviors = merge_events(*(_rows(events, comes[events.user]) for events in (known, clicked)))
    return VisitBatch(config, block, behaviors, visits)


def _show(
    shop: Shop, batch: VisitBatch, scores: np.ndarray, bids_of_items: np.ndarray, arm: np.ndarray
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fill the slots and draw the clicks; return impressions and sums by user."""
    auction, visits, config = shop.auction, batch.visits, shop.config
    bids = bids_of_items[visits.items]
    explores = uniforms(config.seed, Draw.EXPLORE, batch.user_ids, visits.second) < auction.exploration
    order = batch.part(np.flatnonzero(explores)).uniforms(Draw.ORDER)
    slots = run_auctions(scores, bids, visits.is_first, auction, explores=explores, order=order)
    nothing = np.zeros(len(visits), bool)
    best = run_auctions(batch.probability, bids, visits.is_first, auction, explores=nothing, order=order[:0])
    examination = np.array(auction.examination)
    probability = _at(batch.probability, slots) * examination
    uniform = _at(batch.uniforms(Draw.CLICK), slots)
    label = (uniform < probability).astype(np.int8)
    is_shown, (V, K) = slots.column >= 0, slots.column.shape
    column = np.maximum(slots.column, 0)
    table = {
        "user": batch.user_ids[:, None],
        "item": make_world(config).item_id[np.take_along_axis(visits.items, column, axis=1)],
        "time": (config.origin + visits.second)[:, None],
        "pid": (visits.pid[:, None] + 1).astype(np.int8),
        "hour": visits.hour[:, None].astype(np.int8),
        "slot": np.arange(1, K + 1, dtype=np.int8)[None, :],
        "label": label,
        "bid": np.take_along_axis(bids, column, axis=1),
        "ctr": _at(scores, slots).astype(np.float32),
        "score": slots.score,
        "price": np.where(label > 0, slots.price, 0.0),
        "propensity": slots.propensity,
        "arm": arm[:, None],
        "true_probability": probability.astype(np.float32),
    }
    impressions = pd.DataFrame(
        {name: np.broadcast_to(values, (V, K))[is_shown] for name, values in table.items()}
    )
    best_probability = _at(batch.probability, best) * examination
    sums = {
        "impressions": is_shown, "clicks": label, "revenue": table["price"],
        "expected_clicks": probability, "expected_revenue": probability * slots.price,
        "oracle_clicks": best_probability, "oracle_revenue": best_probability * best.price,
        "value": probability * _at(bids, slots), "oracle_value": best_probability * _at(bids, best),
    }  # fmt: skip
    return impressions, pd.DataFrame(
        {"user": batch.user_ids, "arm": arm}
        | {name: sums[name].sum(axis=1, dtype=np.float64) for name in EXPOSURE_SUMS}
    )


def _at(values: np.ndarray, slots: Slots) -> np.ndarray:
    """Return the values of the shown candidates, ``(V, K)``; 0 in empty slots."""
    found = np.take_along_axis(values, np.maximum(slots.column, 0), axis=1)
    return np.where(slots.column >= 0, found, 0.0)


def _clicks_of(impressions: pd.DataFrame, block: ShopBlock, config: SimulationConfig) -> Events:
    return clicks_of(impressions[impressions["label"] > 0], block, config)


def clicks_of(clicked: pd.DataFrame, block: ShopBlock, config: SimulationConfig) -> Events:
    """Return clicked impressions of the users of a block as behaviours, ordered by user and time."""
    world = make_world(config)
    index = np.empty(len(world.item_id) + 1, np.int64)
    index[world.item_id] = np.arange(len(world.item_id))
    events = Events(
        clicked["user"].to_numpy() - block.users.ids[0],
        index[clicked["item"].to_numpy()],
        clicked["time"].to_numpy() + clicked["slot"].to_numpy(np.int64) - config.origin,
    )
    order = np.lexsort((events.second, events.user))
    return Events(events.user[order], events.item[order], events.second[order])


def _rows(events: Events, rows: np.ndarray) -> Events:
    return Events(events.user[rows], events.item[rows], events.second[rows])


def _no_events() -> Events:
    nothing = np.zeros(0, np.int64)
    return Events(nothing, nothing, nothing)
