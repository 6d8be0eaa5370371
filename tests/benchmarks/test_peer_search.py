"""The search of another library's options."""

import math

import pytest
from peer_search import search


def value(options) -> float:
    """A function whose best learning rate is 0.004, with the widest embeddings."""
    return -abs(math.log(options["learning_rate"] / 0.004)) + 0.01 * options["dim"]


def test_the_first_trial_has_the_defaults_and_the_others_stay_in_the_leaderboards_ranges():
    seen = []
    search(lambda options, report: seen.append(options) or 0.0, trials=40)
    assert seen[0] == {"learning_rate": 0.001, "l2": 1e-6, "dim": 32, "hidden": [200, 80], "dropout": 0.0}
    assert all(
        0.0005 <= options["learning_rate"] <= 0.02 and 1e-6 <= options["l2"] <= 0.01 for options in seen
    )
    assert {options["dim"] for options in seen} == {16, 32, 64}
    assert {tuple(options["hidden"]) for options in seen} == {(64, 32), (200, 80), (256, 128, 64)}
    assert {options["dropout"] for options in seen} == {0.0, 0.1, 0.2, 0.4}
    assert len({options["learning_rate"] for options in seen}) == 40


def test_the_best_options_are_those_of_the_best_trial():
    seen = []
    best, values = search(lambda options, report: seen.append(options) or value(options), trials=20)
    assert best == seen[values.index(max(values))]
    assert values == [value(options) for options in seen]


def test_a_search_whose_values_come_from_files_goes_on_where_it_was_stopped():
    whole, files = [], {}

    def fitted(options, fail_after: int) -> float:
        key = str(sorted(options.items()))
        if key not in files:
            if len(files) == fail_after:
                raise KeyboardInterrupt
            files[key] = value(options)
        return files[key]

    search(lambda options, report: whole.append(options) or value(options), trials=10)
    with pytest.raises(KeyboardInterrupt):
        search(lambda options, report: fitted(options, 4), trials=10)
    resumed = []
    search(lambda options, report: resumed.append(options) or fitted(options, 10), trials=10)
    assert resumed == whole


def test_a_hopeless_trial_ends_after_the_second_epoch():
    """From the sixth trial on: the median of the earlier ones is 0.7, and the first epoch never ends a trial."""
    lengths = []

    def fit(options, report) -> float:
        number = len(lengths)
        lengths.append(0)
        level = 0.7 if number < 5 else 0.6
        for epoch in range(4):
            lengths[number] = epoch + 1
            report(epoch, level + 0.01 * epoch)
        return level + 0.03

    _, values = search(fit, trials=7)
    assert lengths == [4, 4, 4, 4, 4, 2, 2]
    assert values == pytest.approx([0.73] * 5 + [0.61] * 2)
