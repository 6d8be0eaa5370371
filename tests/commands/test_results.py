"""``deep-interest results``: runs of a dataset and their differences, from a history that is written here."""

import pandas as pd
import pytest

from deep_interest.commands.results import print_results, results_table, runs_table
from deep_interest.errors import InputError
from deep_interest.evaluation.history import RunRecord, append_results


def make(din, **more):
    gauc = {"base": 0.6, "din": din, **more}
    names = [key.upper() for key in gauc]
    return pd.DataFrame(
        {"model": list(gauc), "name": names, "gauc": gauc.values(), "auc": 0.7, "logloss": 0.5}
    )


@pytest.fixture
def history():
    table = None
    for run, results in (("day1", make(0.61)), ("day2", make(0.63)), ("day3", make(0.629, dien=0.7))):
        table = append_results(table, results, RunRecord(run, "", "0a1b2c+", "smoke", "all models"))
    return table


def test_runs_are_listed_newest_first(history):
    header, *rows = (line.split() for line in runs_table(history))
    assert header == ["run", "table", "models", "best", "gauc", "commit", "environment"]
    assert [(row[0], row[-4:-1]) for row in rows] == [
        ("day3", ["DIEN", "0.7000", "0a1b2c+"]),
        ("day2", ["DIN", "0.6300", "0a1b2c+"]),
        ("day1", ["DIN", "0.6100", "0a1b2c+"]),
    ]


def test_a_run_is_shown_with_the_changes_since_the_one_before(history):
    title, compared, _, _, *rows = results_table(history, "last", None, None)
    assert title == "run day3, all models: environment smoke, commit 0a1b2c+"
    assert compared.startswith("run day2, compared with:")
    assert [(row.split()[0], row.split()[1], row.split()[-1]) for row in rows] == [
        ("DIEN", "0.7000", "new"),
        ("DIN", "0.6290", "-0.0010"),
        ("BASE", "0.6000", "+0.0000"),
    ]


def test_a_run_is_compared_with_any_other(history):
    _, compared, *_, din, _ = results_table(history, "day3", "all models", "day1")
    assert compared.startswith("run day1, compared with:")
    assert din.split()[-1] == "+0.0190"
    assert "compared" not in "".join(results_table(history, "day1", None, None))
    with pytest.raises(
        InputError, match=r"--against: day9 is not a run; the newest runs are day3, day2, day1"
    ):
        list(results_table(history, "last", None, "day9"))


def test_options_of_one_run_need_a_run():
    with pytest.raises(InputError, match=r"--against: name a run with --run, such as --run last"):
        list(print_results("simulated", None, None, "day1"))
