"""AUC and GAUC against hand values, a pair-counting reference and scikit-learn; LogLoss and RelaImpr by hand."""

import math
import time
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import auc, gauc, logloss, per_user_auc, rela_impr


def pair_counting_auc(labels, scores):
    """Reference: compare every positive row with every negative one; a tie counts one half."""
    positives = [s for y, s in zip(labels, scores, strict=True) if y == 1]
    negatives = [s for y, s in zip(labels, scores, strict=True) if y == 0]
    won = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p in positives for n in negatives)
    return won / (len(positives) * len(negatives))


def slow_gauc(users, labels, scores):
    """Reference: DIN eq. 10 user by user. Returns value, share of users and share of rows counted."""
    total, weight, counted = 0.0, 0, 0
    for user in set(users):
        rows = [i for i, u in enumerate(users) if u == user]
        if {labels[i] for i in rows} == {0, 1}:
            total += len(rows) * pair_counting_auc([labels[i] for i in rows], [scores[i] for i in rows])
            weight += len(rows)
            counted += 1
    return total / weight, counted / len(set(users)), weight / len(users)


@st.composite
def rated_rows(draw):
    """Users, labels and scores (small integers, so that ties are common), user 0 always with both classes."""
    row = st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(-3, 3))
    rows = [(0, 0, draw(st.integers(-3, 3))), (0, 1, draw(st.integers(-3, 3)))]
    rows += draw(st.lists(row, max_size=30))
    users, labels, scores = zip(*draw(st.permutations(rows)), strict=True)
    return np.array(users), np.array(labels), np.array(scores, dtype=np.float64)


@pytest.mark.parametrize(
    ("labels", "scores", "expected"),
    [
        ([0, 1], [0.2, 0.9], 1.0),
        ([0, 1], [0.9, 0.2], 0.0),
        ([0, 1], [0.5, 0.5], 0.5),
        # Pairs: .3 beats .1, loses to .4; .8 beats both: 3 of 4.
        ([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.8], 0.75),
        # Pairs: .4 ties .4 and beats .1, the other .4 likewise: (.5 + 1 + .5 + 1) / 4.
        ([1, 1, 0, 0], [0.4, 0.4, 0.4, 0.1], 0.75),
    ],
)
def test_auc_equals_hand_values(labels, scores, expected):
    assert auc(labels, scores) == expected


def test_auc_of_one_class_is_nan():
    assert math.isnan(auc([1, 1], [0.1, 0.2]))
    assert math.isnan(auc([0], [0.1]))


def test_gauc_weighs_users_by_impressions_and_leaves_single_class_users_out():
    # User 7: 2 rows, AUC 1. User 3: 3 rows, positive .5 against .9 and .5: AUC .25. User 5: positives only.
    users = [7, 7, 3, 3, 3, 5]
    labels = [0, 1, 0, 1, 0, 1]
    scores = [0.1, 0.2, 0.9, 0.5, 0.5, 0.3]
    result = gauc(users, labels, scores)
    assert result.value == pytest.approx((2 * 1 + 3 * 0.25) / 5)
    assert result.user_coverage == pytest.approx(2 / 3)
    assert result.impression_coverage == pytest.approx(5 / 6)


def test_per_user_auc_names_the_users_it_counts_in_ascending_order():
    result = per_user_auc([7, 7, 3, 3, 3, 5], [0, 1, 0, 1, 0, 1], [0.1, 0.2, 0.9, 0.5, 0.5, 0.3])
    assert result.users.tolist() == [3, 7]
    assert result.impressions.tolist() == [3, 2]
    assert result.auc.tolist() == [0.25, 1.0]
    assert (result.total_users, result.total_impressions) == (3, 6)


def test_within_parts_only_rows_of_the_same_part_are_compared():
    users = ["b", "b", "b", "b", "b", "a", "a", "c", "c"]
    days = [1, 1, 2, 2, 2, 1, 2, 7, 7]
    labels = [1, 0, 1, 0, 0, 1, 0, 0, 1]
    scores = [0.2, 0.1, 0.8, 0.7, 0.9, 0.9, 0.1, 0.9, 0.1]
    found = per_user_auc(users, labels, scores, within=days)
    # b: 1 on day 1 (two rows), one of two pairs on day 2 (three rows); a has one class on each day; c: 0
    assert list(found.users) == ["b", "c"]
    assert list(found.impressions) == [5, 2]
    assert list(found.auc) == [(2 * 1 + 3 * 0.5) / 5, 0.0]
    assert (found.total_users, found.total_impressions) == (3, 9)
    assert gauc(users, labels, scores, within=days).value == 3.5 / 7


@given(rated_rows())
def test_within_one_part_gauc_is_that_of_all_rows(rows):
    users, labels, scores = rows
    one = gauc(users, labels, scores, within=["x"] * len(users))
    assert astuple(one) == pytest.approx(astuple(gauc(users, labels, scores)))


@given(rated_rows())
def test_within_parts_gauc_is_that_of_users_who_are_others_in_each_part(rows):
    users, labels, scores = rows
    days = [index % 2 for index in range(len(users))]
    apart = [f"{user}, {day}" for user, day in zip(users, days, strict=True)]
    if not len(per_user_auc(apart, labels, scores).users):
        with pytest.raises(InputError, match="none of the"):
            gauc(users, labels, scores, within=days)
    else:
        expected = gauc(apart, labels, scores).value
        assert gauc(users, labels, scores, within=days).value == pytest.approx(expected)


def test_parts_of_another_length_or_kind_are_refused():
    with pytest.raises(InputError, match=r"users and within: found shapes users \(2,\), within \(1,\)"):
        gauc([1, 1], [0, 1], [0.1, 0.2], within=[1])
    with pytest.raises(InputError, match="within: found float64 ids"):
        gauc([1, 1], [0, 1], [0.1, 0.2], within=[0.5, 1.5])


def test_neighbouring_users_with_equal_scores_share_no_tie():
    # Sorted by user and score, user 1 ends with .5 and user 2 starts with .5.
    result = per_user_auc([1, 1, 2, 2], [0, 1, 0, 1], [0.1, 0.5, 0.5, 0.6])
    assert result.auc.tolist() == [1.0, 1.0]


@given(rated_rows())
def test_gauc_equals_pair_counting_user_by_user(rows):
    users, labels, scores = rows
    result = gauc(users, labels, scores)
    found = (result.value, result.user_coverage, result.impression_coverage)
    assert found == pytest.approx(slow_gauc(users.tolist(), labels.tolist(), scores.tolist()))


@pytest.mark.parametrize("decimals", [1, 8])
def test_each_users_auc_equals_scikit_learns(decimals):
    rng = np.random.default_rng(0)
    users, labels = rng.integers(0, 50, 2000), rng.integers(0, 2, 2000)
    scores = rng.random(2000).round(decimals).astype(np.float32)
    result = per_user_auc(users, labels, scores)
    expected = [roc_auc_score(labels[users == u], scores[users == u]) for u in range(50)]
    np.testing.assert_allclose(result.auc, expected, rtol=1e-12)
    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)


@given(rated_rows())
def test_a_monotone_transform_of_the_scores_changes_nothing(rows):
    users, labels, scores = rows
    assert gauc(users, labels, np.exp(scores) * 3 - 100) == gauc(users, labels, scores)


@given(rated_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows, random):
    order = list(range(len(rows[0])))
    random.shuffle(order)
    assert gauc(*(column[order] for column in rows)) == gauc(*rows)


@given(rated_rows())
def test_reversing_the_scores_mirrors_gauc(rows):
    users, labels, scores = rows
    assert gauc(users, labels, -scores).value == pytest.approx(1 - gauc(users, labels, scores).value)


@given(rated_rows(), st.permutations(range(5)))
def test_renaming_users_changes_nothing(rows, names):
    users, labels, scores = rows
    renamed = np.array(names)[users] * 10**17 + 2**53
    assert gauc(renamed, labels, scores).value == pytest.approx(gauc(users, labels, scores).value)


@given(rated_rows())
def test_equal_scores_give_one_half(rows):
    users, labels, scores = rows
    assert gauc(users, labels, np.zeros_like(scores)).value == 0.5


def test_gauc_is_pairwise_accuracy_on_one_positive_and_one_negative_per_user():
    rng = np.random.default_rng(1)
    positive, negative = rng.integers(0, 5, (2, 1000))
    scores, labels = np.stack([positive, negative], axis=1).ravel(), np.tile([1, 0], 1000)
    expected = np.mean((positive > negative) + 0.5 * (positive == negative))
    assert gauc(np.repeat(np.arange(1000), 2), labels, scores).value == pytest.approx(expected)


def test_user_ids_that_differ_only_beyond_float_precision_stay_apart():
    first, second = 2**62, 2**62 + 1
    result = per_user_auc([first, second, first, second], [0, 0, 1, 1], [1.0, 4.0, 2.0, 3.0])
    assert result.users.tolist() == [first, second]
    assert result.auc.tolist() == [1.0, 0.0]


def test_half_a_million_rows_take_less_than_five_seconds():
    rng = np.random.default_rng(2)
    users, labels, scores = rng.integers(0, 50_000, 500_000), rng.integers(0, 2, 500_000), rng.random(500_000)
    start = time.perf_counter()
    gauc(users, labels, scores)
    assert time.perf_counter() - start < 5


def test_logloss_equals_the_hand_value():
    expected = -(math.log(0.8) + math.log(1 - 0.4)) / 2
    assert logloss([1, 0], [0.8, 0.4]) == pytest.approx(expected)


def test_logloss_equals_scikit_learns():
    rng = np.random.default_rng(3)
    labels, p = rng.integers(0, 2, 1000), rng.random(1000)
    assert logloss(labels, p) == pytest.approx(log_loss(labels, p), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certain_and_wrong_answer_costs_the_documented_maximum(dtype):
    assert logloss([0], np.ones(1, dtype)) == pytest.approx(7 * math.log(10))
    assert logloss([1], np.zeros(1, dtype)) == pytest.approx(7 * math.log(10))


def test_rela_impr_repeats_the_papers_figures():
    # DIN, Table 3: DIN on MovieLens +1.61 %, LR on Amazon -24.34 %.
    assert rela_impr(0.7337, 0.7300) == pytest.approx(1.61, abs=0.005)
    assert rela_impr(0.7742, 0.8624) == pytest.approx(-24.34, abs=0.005)


@pytest.mark.parametrize("base", [0.5, 0.4])
def test_rela_impr_is_undefined_where_the_base_is_no_better_than_chance(base):
    assert math.isnan(rela_impr(0.7, base))


@pytest.mark.parametrize(
    ("users", "labels", "scores", "message"),
    [
        ([1, 1], [0, 1], [0.1, math.nan], r"scores: 1 of 2 rows are not finite \(row 1 is nan\)"),
        ([1, 1], [0, 1], [math.inf, 0.1], r"row 0 is inf"),
        ([1, 1], [0, 2], [0.1, 0.2], r"labels: row 1 is 2, expected 0 or 1"),
        ([1, 1], [0, math.nan], [0.1, 0.2], r"labels: row 1 is nan"),
        ([1, 1], [0, 1], [0.1], r"found shapes users \(2,\), labels \(2,\), scores \(1,\)"),
        ([1], [0, 1], [0.1, 0.2], r"found shapes users \(1,\)"),
        ([[1], [1]], [0, 1], [0.1, 0.2], r"found shapes users \(2, 1\)"),
        ([], [], [], r"found 0 rows"),
        ([1.0, 1.0], [0, 1], [0.1, 0.2], r"users: found float64 ids, expected integers"),
        ([1, 2], [0, 1], [0.1, 0.2], r"none of the 2 users has both a positive and a negative row"),
    ],
)
def test_gauc_says_what_is_wrong_with_its_input(users, labels, scores, message):
    with pytest.raises(InputError, match=message):
        gauc(users, labels, scores)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [([], [], "found 0 rows"), ([0, 1], [0.1], "found shapes"), ([0, 3], [0.1, 0.2], "row 1 is 3")],
)
def test_auc_says_what_is_wrong_with_its_input(labels, scores, message):
    with pytest.raises(InputError, match=message):
        auc(labels, scores)


def test_logloss_refuses_logits():
    with pytest.raises(InputError, match=r"probabilities: row 1 is 1\.5, expected 0 to 1; apply the sigmoid"):
        logloss([0, 1], [0.5, 1.5])
