"""Exploration of the service: orders drawn by request id, and exact propensities of what is shown."""

import numpy as np
import pytest

from deep_interest.errors import InputError
from deep_interest.serving.exploration import Exploration
from deep_interest.serving.ranking import Ranking

ECPM = np.array([0.10, 0.40, 0.25, 0.05])
RANKING = Ranking(ECPM, ECPM, np.argsort(-ECPM), features=None)
REPETITIONS = 2_000


@pytest.mark.slow
@pytest.mark.parametrize("option", ["epsilon=0.3", "softmax=0.2"])
def test_propensities_are_the_frequencies_over_requests(option):
    exploration = Exploration.parse(option)
    counts, logged = np.zeros((4, 2)), np.zeros((4, 2))
    for number in range(REPETITIONS):
        found = exploration.explore(RANKING, f"request-{number}", slots=2)
        shown = found.order[:2], [0, 1]
        counts[shown] += 1
        logged[shown] = found.propensity  # the same in every request, because the scores are
    assert logged.sum(axis=0) == pytest.approx(1)
    error = np.sqrt(logged * (1 - logged) / REPETITIONS)
    assert (np.abs(counts / REPETITIONS - logged) < 4.5 * error).all()


def test_epsilon_by_hand():
    exploration = Exploration(epsilon=0.2)
    rankings = [exploration.explore(RANKING, str(number), slots=4) for number in range(200)]
    for found in rankings:
        # 0.8 + 0.2 / 4 where eCPM decides, 0.2 / 4 elsewhere
        expected = np.where(found.order == [1, 2, 0, 3], 0.85, 0.05)
        np.testing.assert_allclose(found.propensity, expected)
    assert len({tuple(found.order) for found in rankings}) > 10


def test_a_request_id_always_gives_the_same_order():
    exploration = Exploration(softmax=1.0)
    orders = [exploration.explore(RANKING, "a", slots=2).order.tolist() for _ in range(5)]
    assert all(order == orders[0] for order in orders)
    others = {tuple(exploration.explore(RANKING, str(number), slots=2).order) for number in range(50)}
    assert len(others) > 5


def test_later_slots_have_no_propensity_when_sampling():
    many = np.linspace(0.1, 0.2, 60)
    ranking = Ranking(many, many, np.argsort(-many), features=None)
    found = Exploration(softmax=0.1).explore(ranking, "a", slots=60)
    assert (len(found.order), len(found.propensity)) == (60, 50)


@pytest.mark.parametrize(
    "option", ["epsilon=0", "epsilon=1.5", "softmax=-1", "softmax=nan", "softmax=", "random=1", "0.1"]
)
def test_other_options_are_refused(option):
    with pytest.raises(InputError, match=r"--explore: found .*, expected epsilon=SHARE"):
        Exploration.parse(option)
