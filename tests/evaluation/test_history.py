"""The history of results tables, with runs of two models whose GAUC is chosen here."""

import io

import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.evaluation import history
from deep_interest.evaluation.history import (
    RunRecord,
    append_results,
    earlier_results,
    find_run,
    gauc_changes,
    list_runs,
    previous_results,
    results_of,
    run_before,
)


def results(din, *, seconds=2.5, **more):
    return pd.DataFrame(
        {
            "model": ["base", "din", *more, "oracle"],
            "name": ["BaseModel", "DIN", *(key.upper() for key in more), "Oracle"],
            "gauc": [0.6, din, *more.values(), 0.9],
            "train_seconds": seconds,
        }
    )


def record(run, table="all models"):
    return RunRecord(
        run=run, time="2026-01-02T03:04:05+00:00", commit="0123456789ab", environment="local", table=table
    )


def stored(table):
    """The history as it comes back from its file."""
    return pd.read_csv(io.StringIO(table.to_csv(index=False)))


def test_each_run_enters_once_however_often_it_is_resumed():
    first = append_results(None, results(0.61), record("r1"))
    assert append_results(stored(first), results(0.61), record("r2")).equals(stored(first))
    second = append_results(stored(first), results(0.61, seconds=2.6), record("r3"))
    third = append_results(stored(second), results(0.61), record("r4", "din"))
    assert third[["run", "table"]].drop_duplicates().to_numpy().tolist() == [
        ["r1", "all models"],
        ["r3", "all models"],
        ["r4", "din"],
    ]
    for run, seconds in (("r1", 2.5), ("r3", 2.6), ("r4", 2.5)):
        pd.testing.assert_frame_equal(
            results_of(stored(third), run, "din" if run == "r4" else "all models"),
            results(0.61, seconds=seconds),
            check_dtype=False,
        )


def test_a_history_keeps_the_newest_tables(monkeypatch):
    monkeypatch.setattr(history, "MAX_TABLES", 2)
    table = None
    for number in range(4):
        table = append_results(table, results(0.6 + number / 100), record(f"r{number}"))
    assert list(dict.fromkeys(table["run"])) == ["r2", "r3"]


def test_runs_are_listed_newest_first_with_their_best_model():
    table = append_results(None, results(0.61), record("r1"))
    table = append_results(table, results(0.61, dien=0.7), record("r2"))
    listed = list_runs(stored(table))
    assert listed[["run", "models", "best", "gauc"]].to_numpy().tolist() == [
        ["r2", 3, "DIEN", 0.7],
        ["r1", 2, "DIN", 0.61],
    ]


def test_a_run_is_found_by_the_beginning_of_its_id():
    table = append_results(None, results(0.61), record("2026-01-02"))
    table = append_results(table, results(0.62), record("2026-02-01"))
    table = append_results(table, results(0.63), record("2026-02-01", "din"))
    assert find_run(table, "2026-01") == ("2026-01-02", "all models")
    assert find_run(table, "2026-02-01", "din") == ("2026-02-01", "din")
    assert results_of(table, "2026-02-01", "din")["gauc"].tolist() == [0.6, 0.63, 0.9]
    for run, problem in (("2025", "is not a run"), ("2026", "fits 2 runs")):
        with pytest.raises(
            InputError, match=rf"--run: {run} {problem}; the newest runs are 2026-02-01, 2026-01-02"
        ):
            find_run(table, run)
    with pytest.raises(InputError, match=r"has no table din; its tables are all models"):
        find_run(table, "2026-01", "din")


def test_only_models_whose_gauc_has_changed_are_named_largest_change_first():
    before, after = results(0.61, lr=0.55, dien=0.7), results(0.61004, lr=0.5602, fm=0.62, dien=0.6)
    changes = gauc_changes(before, after)
    assert changes[["model", "before", "after"]].to_numpy().tolist() == [
        ["dien", 0.7, 0.6],
        ["lr", 0.55, 0.5602],
    ]
    assert changes["change"].tolist() == pytest.approx([-0.1, 0.0102])


def test_the_previous_run_is_the_newest_other_one_with_the_same_table():
    table = append_results(None, results(0.61), record("r1"))
    table = append_results(table, results(0.62), record("r2"))
    table = append_results(table, results(0.70), record("r3", "din"))
    run, before = previous_results(stored(table), record("r4"))
    assert (run, before["gauc"].tolist()) == ("r2", [0.6, 0.62, 0.9])
    assert previous_results(stored(table), record("r2"))[0] == "r1"
    assert previous_results(stored(table), record("r3", "din")) is None
    assert previous_results(None, record("r1")) is None


def test_the_run_before_has_the_same_table():
    table = append_results(None, results(0.61), record("r1"))
    table = append_results(table, results(0.70), record("r2", "din"))
    table = append_results(table, results(0.62), record("r3"))
    assert run_before(table, "r3", "all models") == "r1"
    assert run_before(table, "r1", "all models") is run_before(table, "r2", "din") is None


def test_a_report_is_compared_with_the_newest_other_results_of_its_table():
    assert earlier_results(pd.DataFrame(), results(0.61), "all models") is None
    first = stored(append_results(None, results(0.61), record("r1")))
    assert earlier_results(first, results(0.61), "all models") is None  # its own
    assert earlier_results(first, results(0.62), "din") is None
    run, description, table = earlier_results(first, results(0.62), "all models")
    assert (run, description) == ("r1", "environment local, commit 0123456789ab")
    pd.testing.assert_frame_equal(table, results(0.61), check_dtype=False)
    second = stored(append_results(first, results(0.62), record("r2")))
    assert earlier_results(second, results(0.63), "all models")[0] == "r2"
    assert earlier_results(second, results(0.62), "all models")[0] == "r1"
