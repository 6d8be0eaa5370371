"""Searches of long histories as masks, by hand."""

import torch

from deep_interest.export.search import common_buckets, hash_bits, newest_matching, top_scores


def test_the_newest_behaviours_with_the_candidates_code_are_selected():
    codes = torch.tensor([0, 3, 2, 3, 3, 0])  # the first one is padding
    selected = newest_matching(codes, torch.tensor([3, 2, 0, 1]), 2)
    assert selected.tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 1, 0, 0, 0], [0] * 6, [0] * 6]


def test_of_equal_scores_the_newest_behaviours_are_selected():
    scores = torch.tensor([[9.0, 1, 2, 1, 1], [9.0, 5, 4, 3, 2]])
    real = torch.tensor([0.0, 1, 1, 1, 1])
    assert top_scores(scores, real, 3).tolist() == [[0, 0, 1, 1, 1], [0, 1, 1, 1, 0]]
    assert top_scores(scores, real, 1).tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]


def test_short_histories_are_selected_whole():
    scores, real = torch.tensor([[7.0, -1, -2]]), torch.tensor([0.0, 1, 1])
    assert top_scores(scores, real, 5).tolist() == [[0, 1, 1]]
    assert top_scores(scores[:, :1], real[:1], 5).tolist() == [[0]]


def test_a_bucket_is_shared_if_all_of_its_bits_are_equal():
    planes = torch.eye(4)
    behaviors = hash_bits(torch.tensor([[1.0, 1, -1, 1], [1.0, -1, -1, 1], [0.0, 0, 0, 0]]), planes)
    candidates = hash_bits(torch.tensor([[2.0, 3, -5, 1]]), planes)
    assert behaviors[2].tolist() == [-1, -1, -1, -1]
    assert common_buckets(behaviors, candidates, 2).tolist() == [[[1, 0, 0], [1, 1, 0]]]
