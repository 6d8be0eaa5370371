"""Requests that wait are scored together, each gets its own result or error, and a full queue refuses."""

import asyncio
import threading

import numpy as np
import pytest
import torch
from support.service import (
    COLUMNS,
    CONTEXT,
    STANDARDISED,
    make_settings,
    make_snapshot,
    prepared,
    snapshot_of,
)

from deep_interest.service import scoring_queue
from deep_interest.service.scoring_queue import Prepared, QueueFullError, ScoringQueue, make_queue
from deep_interest.service.settings import ServiceSettings
from deep_interest.serving.ranker import Ranker, RankingRequest

REQUESTS = [
    RankingRequest("ann", [10, 11, 12], context=CONTEXT),
    RankingRequest(None, [15], context={"hour": 10}),
    RankingRequest("bob", [10, 99, 10, 13], context={"hour": [9, 10, 11, 99]}),
    RankingRequest("cem", [12, 14], context=CONTEXT, history=[]),
    RankingRequest("ann", [12, 14], context=CONTEXT, history=[10, 77], time=500),
]


@pytest.mark.parametrize(
    "model",
    ["base", "din", "dien", "gru_aigru", "bst", "dmin", "fm", "lr", "popularity", "sim_hard", "sdim", "twin"],
)
@pytest.mark.slow
@pytest.mark.parametrize("columns", [COLUMNS, STANDARDISED], ids=["categories", "numbers"])
def test_requests_scored_together_have_the_scores_of_each(tmp_path, model, columns):
    settings = make_settings(tmp_path)
    ranker = Ranker.load(settings.snapshots / make_snapshot(settings, model=model, columns=columns))
    features = [ranker.features(request) for request in REQUESTS]
    together = ranker.score_many(features)
    assert [len(ctr) for ctr in together] == [3, 1, 4, 2, 2]
    for of, ctr in zip(features, together, strict=True):
        np.testing.assert_allclose(ctr, ranker.score(of), rtol=0, atol=1e-6)


class Counting:
    """Ranker that scores with the number of the request, and keeps what was scored together."""

    def __init__(self):
        self.calls = []

    def score_many(self, features):
        self.calls.append([of.size for of in features])
        if any(of.size == 13 for of in features):
            raise ArithmeticError("cannot be scored")
        return [np.full(of.size, of.size, np.float32) for of in features]


class Sized:
    """Features of a number of candidates."""

    def __init__(self, size):
        self.size = size


def run(queue, tasks):
    """Results or errors of tasks that all wait before the first one begins."""
    release = threading.Event()

    async def everything():
        waiting = [asyncio.create_task(queue.run(release.wait))]
        await asyncio.sleep(0.05)
        waiting += [asyncio.create_task(queue.run(task)) for task in tasks]
        await asyncio.sleep(0.05)
        release.set()
        return (await asyncio.gather(*waiting, return_exceptions=True))[1:]

    try:
        return asyncio.run(everything())
    finally:
        queue.close()


def scoring(ranker, size):
    return lambda: Prepared(ranker, Sized(size), lambda ctr: ctr.tolist())


def test_waiting_requests_are_scored_together_up_to_a_number_of_candidates():
    ranker = Counting()
    results = run(ScoringQueue(16, most_candidates=10), [scoring(ranker, size) for size in (4, 5, 3, 20, 2)])
    assert results == [[float(size)] * size for size in (4, 5, 3, 20, 2)]
    assert ranker.calls == [[4, 5, 3], [20], [2]]


def test_a_gpu_scores_all_requests_that_wait_together(tmp_path):
    queue, ranker = (
        make_queue(ServiceSettings(experiment="shop.din", folder=tmp_path), torch.device("cuda")),
        Counting(),
    )
    run(queue, [scoring(ranker, 400) for _ in range(8)])
    assert ranker.calls == [[400] * 8]


@pytest.mark.parametrize(
    ("options", "threads", "cores"),
    [
        ({}, 4, 8),
        ({"workers": 4}, 1, 2),
        ({"threads": 1}, 1, 1),
        ({"threads": 2}, 1, 2),
        ({"workers": 16}, 1, 1),
    ],
)
def test_half_as_many_threads_as_cores_score(tmp_path, monkeypatch, options, threads, cores):
    monkeypatch.setattr(scoring_queue, "available_cores", lambda: 8)
    settings = ServiceSettings(experiment="shop.din", folder=tmp_path, **options)
    names, kernels = set(threading.enumerate()), []
    monkeypatch.setattr(scoring_queue, "set_kernel_threads", kernels.append)
    queue = make_queue(settings, torch.device("cpu"))
    assert len(set(threading.enumerate()) - names) == threads
    asyncio.run(queue.run(lambda: "a request that is alone"))
    queue.close()
    assert kernels == [cores, None]


def test_threads_that_score_at_once_share_the_cores(monkeypatch):
    kernels, both = [], threading.Barrier(2)
    monkeypatch.setattr(scoring_queue, "set_kernel_threads", kernels.append)
    queue = ScoringQueue(16, threads=2, cores=4)

    async def everything():
        await asyncio.gather(*(queue.run(both.wait) for _ in range(2)))

    asyncio.run(everything())
    queue.close()
    assert kernels[:2] == [4, 2]


def test_what_needs_no_score_does_not_keep_the_others_waiting():
    ranker = Counting()
    run(ScoringQueue(16), [scoring(ranker, 4), lambda: "event", scoring(ranker, 5), scoring(ranker, 6)])
    assert ranker.calls == [[4], [5, 6]]


def test_versions_are_scored_apart():
    first, second = Counting(), Counting()
    run(ScoringQueue(16), [scoring(first, 1), scoring(second, 2), scoring(first, 3)])
    assert (first.calls, second.calls) == ([[1, 3]], [[2]])


def test_an_error_belongs_to_its_request():
    ranker = Counting()

    def fail():
        raise ValueError("cannot be read")

    def answer_badly(_):
        raise KeyError("cannot be answered")

    tasks = [
        scoring(ranker, 2),
        fail,
        lambda: "no score needed",
        lambda: Prepared(ranker, Sized(3), answer_badly),
    ]
    results = run(ScoringQueue(16), tasks)
    assert results[0] == [2.0, 2.0]
    assert isinstance(results[1], ValueError)
    assert results[2] == "no score needed"
    assert isinstance(results[3], KeyError)
    failed = run(ScoringQueue(16), [scoring(ranker, 13), scoring(Counting(), 1), scoring(ranker, 2)])
    assert isinstance(failed[0], ArithmeticError)
    assert failed[1:] == [[1.0], [2.0, 2.0]]


def test_a_full_queue_refuses_and_accepts_again_later():
    queue, ranker = ScoringQueue(3), Counting()
    results = run(queue, [scoring(ranker, 1), scoring(ranker, 2), scoring(ranker, 3)])
    assert results[:2] == [[1.0], [2.0, 2.0]]
    assert isinstance(results[2], QueueFullError)
    assert queue.pending == 0


def test_requests_are_finished_at_the_end(tmp_path):
    ranker = Ranker(snapshot_of(prepared(tmp_path)))
    queue, results = ScoringQueue(16), []

    async def everything():
        features = ranker.features(REQUESTS[0])
        waiting = [asyncio.create_task(queue.run(lambda: Prepared(ranker, features, len))) for _ in range(8)]
        await asyncio.sleep(0)
        queue.close()
        results.extend(await asyncio.gather(*waiting))

    asyncio.run(everything())
    assert results == [3] * 8
