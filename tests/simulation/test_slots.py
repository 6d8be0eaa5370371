"""Slots: placed by an old ranker, examined as planted, and off by default."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from deep_interest.simulation.config import SimulationConfig, SlotConfig
from deep_interest.simulation.events import Events
from deep_interest.simulation.impressions import impression_block
from deep_interest.simulation.slots import rank_on_pages

PLAIN = SimulationConfig(users=600, items=300, categories=30, themes=6, shops=60)
EXAMINATION = (1.0, 0.5, 0.2)


@pytest.fixture(scope="module")
def shown() -> pd.DataFrame:
    return impression_block(
        PLAIN.changed(
            {"slots": {"examination": EXAMINATION, "category": 1.0, "popularity": 0.0, "noise": 1.0}}
        ),
        0,
    )


def test_a_page_is_ranked_by_score_and_a_visit_has_several_pages():
    second = np.array([0, 40, 80, 120, 160, 1000, 1040, 1040])
    user = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    score = np.array([0.1, 0.3, 0.2, 5.0, 6.0, 1.0, 2.0, 9.0])
    ranks = rank_on_pages(score, Events(user, user, second), 3)
    assert ranks.tolist() == [2, 0, 1, 1, 0, 1, 0, 0]


@pytest.mark.slow
def test_slots_change_neither_impressions_nor_relevance(shown):
    plain = impression_block(PLAIN, 0)
    assert "slot" not in plain
    assert shown[["user", "item", "time", "pid", "hour"]].equals(
        plain[["user", "item", "time", "pid", "hour"]]
    )
    assert (shown.true_relevance == plain.true_probability).all()


def test_a_log_without_slots_is_the_log_from_before_there_were_slots():
    frame = impression_block(PLAIN.changed({"users": 200}), 0)
    digest = hashlib.sha256(b"".join(frame[name].to_numpy().tobytes() for name in frame)).hexdigest()
    assert digest[:16] == "86f05632ca6ba947"  # computed at commit d109449


def test_clicks_need_an_examined_slot_and_a_relevant_item(shown):
    of_slot = np.array(EXAMINATION)[shown.slot - 1]
    np.testing.assert_allclose(shown.true_probability, of_slot * shown.true_relevance, rtol=1e-6)
    clicks, expected = shown.groupby("slot").label.sum(), shown.groupby("slot").true_probability.sum()
    assert (np.abs(clicks - expected) < 4 * np.sqrt(expected)).all()


def test_the_old_ranker_shows_relevant_items_first(shown):
    relevance = shown.groupby("slot").true_relevance.mean()
    assert relevance.is_monotonic_decreasing
    assert relevance[1] > 1.2 * relevance[3]


@pytest.mark.parametrize("examination", [(), (1.0, 0.0), (1.2,)])
def test_examination_is_a_probability_above_0(examination):
    with pytest.raises(ValidationError):
        SlotConfig(examination=examination)
