"""Estimators of the effect of slots: truth that was planted, and values computed by hand."""

import numpy as np
import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.evaluation.position import harvested_examination, slot_effects
from deep_interest.evaluation.position_table import PositionRuns, learned_effects, position_table

EXAMINATION = np.array([1.0, 0.6, 0.3, 0.15])


def confounded_log(groups=30_000, seed=0):
    """Two rows per group of equal relevance; groups of high relevance are shown in the first slots more often."""
    rng = np.random.default_rng(seed)
    relevance = rng.beta(2, 3, groups)
    group = np.repeat(np.arange(groups), 2)
    slot = np.clip(rng.poisson(3 * (1 - relevance[group])), 0, 3)
    label = rng.random(len(group)) < EXAMINATION[slot] * relevance[group]
    return group, slot + 1, label.astype(int), relevance[group]


def test_harvesting_separates_the_slot_from_the_relevance():
    group, slot, label, _ = confounded_log()
    raw = pd.Series(label).groupby(slot).mean().to_numpy()
    found = harvested_examination(group, slot, label)
    assert raw[3] / raw[0] < 0.85 * EXAMINATION[3]  # what confounding does
    np.testing.assert_allclose(found, EXAMINATION, rtol=0.1)


def test_two_slots_are_compared_by_hand():
    # three groups with one row in each slot; two clicks in slot 1, one in slot 2: e_2 / (1 + e_2) = 1 / 3
    found = harvested_examination([0, 0, 1, 1, 2, 2], [1, 2, 1, 2, 1, 2], [1, 0, 1, 0, 0, 1])
    np.testing.assert_allclose(found, [1.0, 0.5], rtol=1e-8)


def test_a_slot_that_shares_no_group_with_others_is_an_error():
    with pytest.raises(InputError, match="slot 3 cannot be compared with slot 1"):
        harvested_examination([0, 0, 1, 1, 2, 2], [1, 2, 1, 2, 3, 3], [1, 0, 0, 1, 1, 0])


def test_without_logits_the_effects_are_ratios_of_ctr_and_differences_of_log_odds():
    slots = np.repeat([1, 2], 10)
    labels = np.array([1] * 5 + [0] * 5 + [1] * 2 + [0] * 8)
    users, zeros = np.arange(20), np.zeros(20)
    ratio = slot_effects(users, slots, labels, zeros, form="examination")
    odds = slot_effects(users, slots, labels, zeros, form="logit")
    np.testing.assert_allclose(ratio.value, [1, 0.2 / 0.5], rtol=1e-6)
    np.testing.assert_allclose(odds.value, [0, np.log(2 / 8)], rtol=1e-6)
    # log-odds of independent rows: the variance of each is 1 / (n p (1 - p))
    width = 1.959964 * np.sqrt(1 / 2.5 + 1 / 1.6)
    np.testing.assert_allclose(odds.high[1] - odds.low[1], 2 * width, rtol=1e-4)


def test_given_the_relevance_the_planted_examination_is_found_with_its_interval():
    group, slot, label, relevance = confounded_log()
    logits = np.log(relevance / (1 - relevance))
    found = slot_effects(group, slot, label, logits, form="examination")
    np.testing.assert_allclose(found.value, EXAMINATION, rtol=0.05)
    assert ((found.low <= EXAMINATION) & (EXAMINATION <= found.high)).all()


def test_intervals_count_rows_of_one_user_once():
    group, slot, label, relevance = confounded_log(2_000)
    logits = np.log(relevance / (1 - relevance))
    once = slot_effects(group, slot, label, logits, form="logit")
    again = [np.tile(values, 4) for values in (group, slot, label, logits)]
    four = slot_effects(*again, form="logit")
    np.testing.assert_allclose(four.low, once.low, rtol=1e-6)


def test_the_table_has_the_selected_evaluation_of_each_seed_and_unknown_slots_are_left_out():
    curves = pd.DataFrame(
        {
            "seed": [1, 1, 2], "validation_gauc": [0.7, 0.6, 0.5],
            "examination_1": 1.0, "examination_2": [0.4, 0.9, 0.6], "examination_10": [0.1, 0.2, 0.3],
        }
    )  # fmt: skip
    form, learned = learned_effects(curves, "gauc")
    assert form == "examination"
    assert learned.tolist() == [[1.0, 0.4, 0.1], [1.0, 0.6, 0.3]]
    test = pd.DataFrame({"user": range(6), "slot": [1, 1, 2, 2, 0, 0], "label": [1, 0, 1, 0, 1, 1]})
    runs = {"din": PositionRuns("DIN", form, learned, np.full((2, 6), 0.5), 1)}
    table = position_table(test, runs)
    assert table["samples"].tolist() == [2, 2]
    assert table["raw"].tolist() == pytest.approx([1, 1])
    assert table["learned"].tolist() == [1.0, 0.5]
    assert learned_effects(curves[["seed", "validation_gauc"]], "gauc") is None
