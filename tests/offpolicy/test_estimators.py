"""Estimators against values by hand, against the enumeration of all logs of a tiny shop, and invariants."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deep_interest.errors import InputError
from deep_interest.offpolicy import (
    Decisions,
    doubly_robust,
    epsilon_greedy,
    evaluate,
    ips,
    on_policy,
    slate_weights,
    snips,
    softmax,
    switch_dr,
)
from deep_interest.offpolicy.reward_model import FOLDS, fold_of, rates_without

PROPENSITY = np.array([0.5, 0.5, 0.25, 0.25])
TARGET = np.array([1.0, 0.0, 0.5, 0.25])  # weights 2, 0, 2, 1
REWARD = np.array([1.0, 1.0, 0.0, 1.0])
EXPECTED, SHOWN = np.array([0.5, 0.5, 0.25, 0.25]), np.array([0.5, 0.25, 0.25, 0.5])


def log_of(reward=REWARD, propensity=PROPENSITY, target=TARGET, cluster=None, model=True, **changes):
    rows = len(reward)
    values = {"expected": EXPECTED[:rows], "expected_shown": SHOWN[:rows]} if model else {}
    return Decisions(
        np.arange(rows) if cluster is None else np.array(cluster), np.arange(rows), np.ones(rows, int), reward, propensity, target,
        **values | changes,
    )  # fmt: skip


def test_all_estimators_by_hand():
    log = log_of()
    weights = log.ratio
    assert weights.tolist() == [2, 0, 2, 1]
    assert on_policy(log).value == 0.75
    assert ips(log, weights).value == (2 + 0 + 0 + 1) / 4
    assert snips(log, weights).value == 3 / 5
    # m + w (r - q): 0.5 + 2 × 0.5, 0.5 + 0, 0.25 + 2 × -0.25, 0.25 + 1 × 0.5
    assert doubly_robust(log, weights).value == (1.5 + 0.5 - 0.25 + 0.75) / 4


def test_the_standard_error_is_that_of_the_sums_of_users():
    log = log_of(cluster=[0, 0, 1, 2])
    found = ips(
        log, log.ratio
    )  # contributions 2, 0, 0, 1 less their mean 0.75: sums of users 0.5, -0.75, 0.25
    assert found.error == pytest.approx(np.sqrt(3 / 2 * (0.25 + 0.5625 + 0.0625)) / 4)
    assert found.high - found.value == pytest.approx(
        4.302653 * found.error
    )  # quantile of t with 2 degrees of freedom
    spread = snips(log, log.ratio).contributions  # w (r - 0.6) / 1.25
    np.testing.assert_allclose(spread, np.array([2 * 0.4, 0, 2 * -0.6, 0.4]) / 1.25)


def test_switch_dr_uses_the_model_alone_above_the_threshold():
    log = log_of()
    found, threshold = switch_dr(log, log.ratio, threshold=1.0)
    assert threshold == 1
    # as doubly robust, without the corrections of the first and third row, whose weights are 2
    assert found.value == (0.5 + 0.5 + 0.25 + 0.75) / 4
    cautious, threshold = switch_dr(log, log.ratio)
    assert threshold == float("inf")  # the bias could be larger than what the variance costs
    assert cautious.value == doubly_robust(log, log.ratio).value


LOGGING = [[0.8, 0.2], [0.4, 0.6]]  # by kind of visitor and item
RATE = [[0.5, 0.1], [0.2, 0.9]]


def logs_of_a_tiny_shop():
    """Yield every log of two visits with its probability: two kinds of visitors, two items, a click or none."""
    one = [
        (
            (kind, item, click),
            0.5 * LOGGING[kind][item] * (RATE[kind][item] if click else 1 - RATE[kind][item]),
        )
        for kind, item, click in product((0, 1), repeat=3)
    ]
    for (first, p), (second, q) in product(one, repeat=2):
        yield [first, second], p * q


@pytest.mark.parametrize("estimator", [ips, doubly_robust])
def test_estimates_are_unbiased_over_all_logs(estimator):
    target = {0: [0.1, 0.9], 1: [0.7, 0.3]}
    model = [0.3, 0.6]  # of an item, wrong
    mean = total = 0.0
    for visits, probability in logs_of_a_tiny_shop():
        kinds, items, clicks = zip(*visits, strict=True)
        log = log_of(
            np.array(clicks, float),
            np.array([LOGGING[kind][item] for kind, item in zip(kinds, items, strict=True)]),
            np.array([target[kind][item] for kind, item in zip(kinds, items, strict=True)]),
            model=False,
            expected=np.array([np.dot(target[kind], model) for kind in kinds]),
            expected_shown=np.array([model[item] for item in items]),
        )
        mean += probability * estimator(log, log.ratio).value
        total += probability
    truth = np.mean([np.dot(target[kind], RATE[kind]) for kind in (0, 1)])
    assert total == pytest.approx(1)
    assert mean == pytest.approx(truth, abs=1e-12)


PROBABILITIES = arrays(float, 6, elements=st.floats(0.05, 1))


@settings(max_examples=40, deadline=None)
@given(PROBABILITIES, arrays(float, 6, elements=st.sampled_from([0.0, 1.0])))
def test_invariants(propensity, reward):
    same = log_of(reward, propensity, propensity, model=False)
    assert ips(same, same.ratio).value == pytest.approx(reward.mean())
    assert snips(same, same.ratio).error == pytest.approx(on_policy(same).error)
    other = log_of(reward, propensity, propensity[::-1].copy(), model=False)
    scaled = log_of(reward, propensity, propensity[::-1] * 0.5, model=False)
    assert snips(scaled, scaled.ratio).value == pytest.approx(snips(other, other.ratio).value)
    zero = log_of(
        reward,
        propensity,
        propensity[::-1].copy(),
        model=False,
        expected=np.zeros(6),
        expected_shown=np.zeros(6),
    )
    assert doubly_robust(zero, zero.ratio).value == pytest.approx(ips(other, other.ratio).value)
    perfect = log_of(
        reward,
        propensity,
        propensity[::-1].copy(),
        model=False,
        expected=np.arange(6.0),
        expected_shown=reward,
    )
    assert doubly_robust(perfect, perfect.ratio).value == pytest.approx(2.5)


def test_weights_of_slates():
    log = Decisions(
        np.zeros(5, int), np.array([1, 0, 0, 1, 1]), np.array([2, 1, 2, 1, 3]), np.ones(5), np.full(5, 0.5),
        np.array([0.25, 1.0, 0.5, 0.5, 0.0]),
    )  # fmt: skip
    assert slate_weights(log, "item_position").tolist() == [0.5, 2, 1, 1, 0]
    assert slate_weights(log, "cascade").tolist() == [0.5, 2, 2, 1, 0]  # request 1: 1, 1 × 0.5, 0.5 × 0
    assert slate_weights(log, "whole").tolist() == [0, 2, 2, 0, 0]


def test_policies_by_hand():
    request, scores = np.array([0, 0, 0, 1, 1]), np.array([1.0, 3.0, 2.0, 0.0, np.log(3)])
    np.testing.assert_allclose(softmax(scores[3:], request[3:] - 1, 1.0), [0.25, 0.75])
    np.testing.assert_allclose(softmax(scores * 1000, request, 1.0), [0, 1, 0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(epsilon_greedy(scores, request, 0.3), [0.1, 0.8, 0.1, 0.15, 0.85])
    second = epsilon_greedy(scores, request, 0.3, np.full(5, 2))
    np.testing.assert_allclose(second, [0.1, 0.1, 0.8, 0.85, 0.15])


def test_rates_come_from_the_other_users():
    item, slot, reward = np.array([0, 0, 1, 1]), np.array([1, 2, 1, 2]), np.array([1.0, 0.0, 1.0, 1.0])
    rates = rates_without(0, np.array([1, 1, 1, 0]), item=item, slot=slot, reward=reward, items=2, slots=2)
    assert rates.by_slot[1:].tolist() == [1, 0]  # of the first three rows
    np.testing.assert_allclose(rates.factor, [(1 + 10) / (1 + 10), (1 + 10) / (1 + 10)])
    folds = fold_of(np.repeat(np.arange(1000), 3))
    assert set(folds.tolist()) == set(range(FOLDS))
    assert (folds.reshape(-1, 3) == folds.reshape(-1, 3)[:, :1]).all()  # a user has one fold


def test_refusals_name_what_is_wrong():
    rng = np.random.default_rng(0)
    rows = 5000
    reward = (rng.random(rows) < 0.1).astype(float)
    good = log_of(reward, np.full(rows, 0.5), np.full(rows, 0.5), model=False)
    assert evaluate(good).checks["refusals"] == []
    missing = log_of(reward, np.full(rows, 0.5), np.full(rows, 0.35), model=False)
    assert "the log lacks what B shows" in evaluate(missing).checks["refusals"][0]
    wrong = log_of(reward, np.full(rows, 0.5), np.full(rows, 0.7), model=False)
    assert "probabilities are wrong" in evaluate(wrong).checks["refusals"][0]
    few = log_of(reward[:300], np.full(300, 0.5), np.full(300, 0.5), model=False)
    assert "the log is worth" in evaluate(few).checks["refusals"][0]
    assert evaluate(good, unseen=0.05).checks["refusals"] == []
    (unseen,) = evaluate(good, unseen=0.08).checks["refusals"]
    assert "8.0% of what B would show is never in that slot" in unseen
    one = log_of(
        reward,
        np.full(rows, 0.5),
        np.full(rows, 0.5),
        np.repeat([0, *range(1, 4001)], [1000, *[1] * 4000]),
        model=False,
    )
    assert any("one user makes" in reason for reason in evaluate(one).checks["refusals"])


def test_invalid_decisions():
    with pytest.raises(InputError, match=r"propensity: found a value outside \(0, 1\]"):
        log_of(propensity=np.array([0.5, 0.0, 0.1, 0.1]))
    with pytest.raises(InputError, match=r"target: found a value outside"):
        log_of(target=np.array([0.5, 1.2, 0.1, 0.1]))
    with pytest.raises(InputError, match="expected at least 2"):
        evaluate(log_of(cluster=[0, 0, 0, 0]))
    with pytest.raises(InputError, match="weights: all are 0"):
        evaluate(log_of(target=np.zeros(4)))
    with pytest.raises(InputError, match="found no reward model"):
        doubly_robust(log_of(model=False), np.ones(4))
