from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ops import LENGTHS, jagged, partitioned, use_engine

from deep_interest.ops.jagged import share_segments
from deep_interest.ops.limits import MAX_BITS
from deep_interest.ops.search import dot_scores, hamming_scores, newest_matching, sim_hash, top_scores

OWNERS = st.lists(st.integers(0, 6), min_size=1, max_size=8)
SEEDS = st.integers(0, 1000)


def pairs_of(lengths, owners):
    """Segments that are shared by samples, and the behaviours of each as a range."""
    owner = torch.tensor(sorted(min(o, len(lengths) - 1) for o in owners))
    own = jagged(lengths)
    shared = share_segments(own, owner)
    ends = own.offsets.tolist()
    return shared, [range(ends[h], ends[h + 1]) for h in owner.tolist()], sum(lengths)


def by_every_implementation(operation):
    """Results of the compiled kernels, by one and by three threads, and of the torch operations."""
    results = []
    for threads in (1, 3):
        with partitioned(threads):
            results.append(operation())
    with use_engine("plain"):
        results.append(operation())
    return results


def segments_of(selection):
    ends = selection.offsets.tolist()
    return [selection.positions[a:b].tolist() for a, b in pairwise(ends)]


@given(LENGTHS, OWNERS, st.integers(1, 3), SEEDS)
@settings(max_examples=40, deadline=None)
def test_hard_search_finds_the_newest_behaviours_with_the_candidates_code(lengths, owners, count, seed):
    pairs, behaviors, total = pairs_of(lengths, owners)
    rng = np.random.default_rng(seed)
    codes, targets = (torch.tensor(rng.integers(0, 3, n), dtype=torch.int32) for n in (total, len(behaviors)))
    expected = [
        [n for n in run if codes[n] == target and target > 0][-count:]
        for run, target in zip(behaviors, targets, strict=True)
    ]
    for found in by_every_implementation(lambda: newest_matching(codes, targets, pairs, count)):
        assert segments_of(found) == expected


@given(LENGTHS, OWNERS, st.integers(1, 3), SEEDS)
@settings(max_examples=40, deadline=None)
def test_top_scores_keep_the_newest_of_equal_scores(lengths, owners, count, seed):
    pairs, behaviors, _ = pairs_of(lengths, owners)
    scores = torch.tensor(np.random.default_rng(seed).integers(-2, 2, pairs.total), dtype=torch.float32)
    expected, begin = [], 0
    for run in behaviors:
        own = scores[begin : begin + len(run)].tolist()
        ranked = sorted(range(len(run)), key=lambda j, own=own: (-own[j], -j))
        expected.append(sorted(run[j] for j in ranked[:count]))
        begin += len(run)
    for found in by_every_implementation(lambda: top_scores(scores, pairs, count)):
        assert segments_of(found) == expected


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
def test_top_scores_of_a_long_history_are_those_of_a_full_sort(order):
    scores = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    scores = {"random": scores, "ascending": scores.sort().values, "descending": -(-scores).sort().values, "equal": scores * 0}[
        order
    ]  # fmt: skip
    expected = sorted(sorted(range(1000), key=lambda j: (-scores[j].item(), -j))[:7])
    for found in by_every_implementation(lambda: top_scores(scores, jagged([1000]), 7)):
        assert found.positions.tolist() == expected


def vectors_of(fields):
    return np.concatenate([table.numpy()[codes.numpy()] for table, codes in fields], axis=1)


def fields_of(rng, total, rows, width=3):
    return [
        (torch.tensor(rng.normal(size=(r, width)), dtype=torch.float32), torch.tensor(rng.integers(0, r, total), dtype=torch.int32))
        for r in rows
    ]  # fmt: skip


@given(LENGTHS, OWNERS, SEEDS)
@settings(max_examples=30, deadline=None)
@pytest.mark.slow
def test_dot_scores_are_products_of_concatenated_rows_with_the_query(lengths, owners, seed):
    pairs, behaviors, total = pairs_of(lengths, owners)
    rng = np.random.default_rng(seed)
    fields = fields_of(rng, total, (9, 2))  # the second table has fewer rows than most histories behaviours
    queries = torch.tensor(rng.normal(size=(len(behaviors), 6)), dtype=torch.float32)
    vectors = vectors_of(fields)
    expected = [
        vectors[n] @ query.numpy() for run, query in zip(behaviors, queries, strict=True) for n in run
    ]
    for found in by_every_implementation(lambda: dot_scores(fields, queries, pairs)):
        np.testing.assert_allclose(found.numpy(), np.array(expected), atol=1e-5)


@pytest.mark.parametrize("planes", [1, 32, MAX_BITS])
@pytest.mark.parametrize(
    "rows", [(4, 3), (90, 3)], ids=["small tables", "a table with more rows than vectors"]
)
def test_the_bits_of_a_fingerprint_are_the_signs_of_the_products_with_the_planes(rows, planes):
    rng = np.random.default_rng(0)
    fields = fields_of(rng, 20, rows)
    directions = torch.tensor(rng.normal(size=(6, planes)), dtype=torch.float32)
    signs = vectors_of(fields) @ directions.numpy() > 0
    expected = [sum(1 << k for k in range(planes) if row[k]) for row in signs]
    for found in by_every_implementation(lambda: sim_hash(fields, directions)):
        assert found.tolist() == expected


@given(LENGTHS, OWNERS, SEEDS)
@settings(max_examples=30, deadline=None)
def test_hamming_scores_count_the_bits_that_differ(lengths, owners, seed):
    pairs, behaviors, total = pairs_of(lengths, owners)
    rng = np.random.default_rng(seed)
    words, queries = (torch.tensor(rng.integers(0, 2**MAX_BITS, n)) for n in (total, len(behaviors)))
    expected = [
        -((words[n].item() ^ query.item()).bit_count())
        for run, query in zip(behaviors, queries, strict=True)
        for n in run
    ]
    for found in by_every_implementation(lambda: hamming_scores(words, queries, pairs)):
        assert found.tolist() == expected
