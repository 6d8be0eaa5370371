"""From declared tables to decisions: candidates with scores and with probabilities, and what can be wrong with them."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from deep_interest.errors import InputError
from deep_interest.messages.selection import unknown_pipeline
from deep_interest.offpolicy import evaluate
from deep_interest.offpolicy.assembly import assemble
from deep_interest.offpolicy.parameters import OffPolicyParameters
from deep_interest.sources.tables.decisions import read_decisions

REQUESTS, SLOTS, ITEMS = 600, 2, 4
RNG = np.random.default_rng(0)
SCORES = RNG.random((REQUESTS, ITEMS))
SHOWN = RNG.permuted(np.tile(np.arange(ITEMS), (REQUESTS, 1)), axis=1)[:, :SLOTS].ravel()
REQUEST, SLOT = np.repeat(np.arange(REQUESTS), SLOTS), np.tile([0, 1], REQUESTS)
CLICK = (RNG.random(REQUESTS * SLOTS) < 0.2 + 0.4 * SCORES[REQUEST, SHOWN]).astype(int)
LOG = pd.DataFrame(
    {
        "request": REQUEST,
        "user": REQUEST // 3,
        "slot": SLOT,
        "item": SHOWN,
        "click": CLICK,
        "propensity": 1 / ITEMS,
    }
)
OF = {"request": np.repeat(np.arange(REQUESTS), ITEMS), "item": np.tile(np.arange(ITEMS), REQUESTS)}
RANK = (-SCORES).argsort(axis=1).argsort(axis=1)
BY_SCORE = pd.DataFrame(OF | {"score": SCORES.ravel()})
BY_PROBABILITY = pd.concat(
    [
        pd.DataFrame(OF | {"slot": slot, "probability": np.where(RANK.ravel() == slot, 0.85, 0.05)})
        for slot in (0, 1)
    ]
)
GREEDY = {"policy": "epsilon_greedy", "epsilon": 0.2}
WITH_SLOT = {"files": "log.csv", "request": "request", "user": "user", "slot": "slot"}


def parameters(candidates=None, log=WITH_SLOT, **more):
    source = {"log": log} | ({"candidates": {"files": "candidates.csv"} | candidates} if candidates else {})
    return OffPolicyParameters.model_validate({"title": "Mine", "source": source} | more)


def assembled(folder, settings, log=LOG, candidates=None):
    log.to_csv(folder / "log.csv", index=False)
    if candidates is not None:
        candidates.to_csv(folder / "candidates.csv", index=False)
    tables = read_decisions(folder, settings.source, on_bad_line=settings.reading.on_bad_line)
    return assemble(tables, settings), tables


def test_scores_and_the_probabilities_that_they_mean_give_the_same_estimates(tmp_path):
    by_score, _ = assembled(tmp_path, parameters({"score": "score"}, target=GREEDY), candidates=BY_SCORE)
    settings = parameters({"probability": "probability", "slot": "slot"})
    by_probability, _ = assembled(tmp_path, settings, candidates=BY_PROBABILITY)
    target = np.where(RANK[REQUEST, SHOWN] == SLOT, 0.85, 0.05)
    np.testing.assert_allclose(by_score.decisions.target, target)
    found, other = (evaluate(each.decisions, unseen=each.unseen) for each in (by_score, by_probability))
    pd.testing.assert_frame_equal(found.results, other.results)
    assert found.results["value"][0] == pytest.approx((target * ITEMS * CLICK).mean())
    assert found.checks["unseen"] == 0
    assert found.checks["users"] == REQUESTS // 3


def test_softmax_of_two_slots_draws_the_second_from_what_is_left(tmp_path):
    settings = parameters({"score": "score"}, target={"policy": "softmax", "temperature": 0.5})
    found, _ = assembled(tmp_path, settings, candidates=BY_SCORE)
    first = np.exp(SCORES / 0.5) / np.exp(SCORES / 0.5).sum(axis=1, keepdims=True)
    odds = first / (1 - first)
    second = first * (
        odds.sum(axis=1, keepdims=True) - odds
    )  # sum over the other items j of p_j p_i / (1 - p_j)
    expected = np.where(SLOT == 0, first[REQUEST, SHOWN], second[REQUEST, SHOWN])
    np.testing.assert_allclose(found.decisions.target, expected, atol=1e-7)


def test_the_model_expects_what_other_users_did_of_the_target_policy(tmp_path):
    found, _ = assembled(tmp_path, parameters({"score": "score"}), candidates=BY_SCORE)  # greedy
    decisions = found.decisions
    best, second = (np.argmax(RANK == rank, axis=1)[REQUEST] for rank in (0, 1))
    shown = np.where(SLOT == 0, best, second)
    same = shown == SHOWN  # the policy would show what was shown
    np.testing.assert_allclose(decisions.expected[same], decisions.expected_shown[same])
    assert (decisions.target == same).all()


def test_items_that_the_log_never_shows_are_reported(tmp_path):
    log = LOG[LOG["item"] != 3]
    found, _ = assembled(tmp_path, parameters({"score": "score"}), log=log, candidates=BY_SCORE)
    rows = log.index.to_numpy()
    wanted = (RANK[REQUEST[rows], 3] == SLOT[rows]).mean()
    assert found.unseen == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("settings", "log", "candidates", "message"),
    [
        ({"candidates": {"probability": "probability", "slot": "slot"}}, LOG, BY_PROBABILITY.iloc[1:], r"of request '0', slot 1 sum to 0\..*list all candidates"),
        ({"candidates": {"score": "score"}}, LOG, BY_SCORE.iloc[4:], r"2 row\(s\) of the log have a request without candidates, for example '0'"),
        ({"candidates": {"score": "score"}}, LOG, pd.concat([BY_SCORE, BY_SCORE.iloc[:2]]), r"2 row\(s\) have the request, item and slot of an earlier row"),
        ({"candidates": {"score": "score"}}, pd.concat([LOG, LOG.iloc[:3]]), BY_SCORE, r"source.log: 3 row\(s\) have the request and slot of an earlier row"),
        ({"candidates": {"score": "score"}}, LOG.assign(propensity=1.25), BY_SCORE, r"column propensity \(log.propensity\): found 1,200 invalid value\(s\), for example '1.25'; expected a probability"),
        ({"candidates": {"score": "score"}}, LOG.assign(click="yes"), BY_SCORE, r"column click \(log.reward\): found 1,200 invalid"),
        ({"candidates": {"score": "score"}}, LOG.drop(columns="propensity"), BY_SCORE, r"column propensity \(source.log.propensity\) not found"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_tables_is_one_message(tmp_path, settings, log, candidates, message):
    with pytest.raises(InputError, match=message):
        assembled(tmp_path, parameters(**settings), log=log, candidates=candidates)


def test_invalid_rows_are_skipped_and_counted_on_request(tmp_path):
    log = LOG.assign(target=0.5)
    log.loc[:4, "propensity"] = 0.0
    settings = parameters(log=WITH_SLOT | {"target": "target"}, reading={"on_bad_line": "skip"})
    found, tables = assembled(tmp_path, settings, log=log)
    assert len(found.decisions.reward) == len(LOG) - 5
    assert sum(tables.left_out.values()) == 5
    assert set(evaluate(found.decisions).results["estimator"]) == {
        "ips",
        "snips",
    }  # no distribution, no model


@pytest.mark.parametrize(
    ("source", "more", "message"),
    [
        ({"log": {"files": "log.csv"}}, {}, "set one of log.target"),
        ({"log": {"files": "log.csv"}, "candidates": {"files": "c.csv", "score": "s"}}, {}, "candidates need log.request"),
        ({"log": WITH_SLOT, "candidates": {"files": "c.csv"}}, {}, "set one of probability"),
        ({"log": WITH_SLOT, "candidates": {"files": "c.csv", "probability": "p"}}, {}, "set slot in both log and candidates"),
        ({"log": WITH_SLOT | {"target": "t"}}, {"target": GREEDY}, "target turns scores into probabilities"),
        ({"log": WITH_SLOT, "candidates": {"files": "c.csv", "score": "s"}}, {"target": {"policy": "softmax"}}, "temperature is the option of policy: softmax"),
    ],
)  # fmt: skip
def test_declarations_that_do_not_fit_together(source, more, message):
    with pytest.raises(ValidationError, match=message):
        OffPolicyParameters.model_validate({"title": "Mine", "source": source} | more)


def test_a_mistyped_evaluation_is_named():
    message = unknown_pipeline("ope.mien", ["ope.mine", "abtest.example"])
    assert "mien is not under ope; the evaluations are ope.mine; did you mean ope.mine" in message
