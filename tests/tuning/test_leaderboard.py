"""Leaderboards: one budget for all models, the same result after kills, pruning that keeps the winner."""

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from optuna.trial import TrialState
from support.leaderboard import OPTIONS, run_leaderboard, searches_of, small_leaderboard, without_timings
from support.project import environment
from support.tuning import seen_data, small_search

from deep_interest.pipelines.leaderboard.nodes import make_recipe
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.training.parameters import Recipes, RunParameters
from deep_interest.tuning import search as search_module
from deep_interest.tuning.leaderboard import progress_line, result_of, search_all, seconds_left, trials_of
from deep_interest.tuning.leaderboard_table import as_recipe
from deep_interest.tuning.parameters import SearchRange, SearchRanges
from deep_interest.tuning.search import tune
from deep_interest.tuning.study import finished_trials, open_study

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
SEARCHED = [model for model in OPTIONS if model != "popularity"]


def process_of(folder, workers, n_trials=6, epochs=8):
    command = [sys.executable, str(TESTS / "support/leaderboard.py"), str(folder), str(n_trials), str(workers), str(epochs)]  # fmt: skip
    return subprocess.Popen(
        command, cwd=TESTS, env=environment() | {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished_trials_below(folder):
    """Return the number of finished trials of all models."""
    finished = 0
    for file in folder.glob("small/*/tuning/study.db"):
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            try:
                query = "SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')"
                finished += connection.execute(query).fetchone()[0]
            except sqlite3.OperationalError:  # the tables do not exist yet
                pass
    return finished


def run_with_kills(folder, workers, *, seed=0):
    """Kill a leaderboard at three random moments of its search, then let it end."""
    folder.mkdir()
    generator = random.Random(seed)
    for trials in sorted(generator.sample(range(1, 11), 3)):  # of 12
        process, deadline = process_of(folder, workers), time.monotonic() + 120
        while finished_trials_below(folder) < trials and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)
        time.sleep(generator.uniform(0, 0.2))
        assert process.poll() is None, "it must still be running when it is killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = process_of(folder, workers)
    assert process.wait(timeout=300) == 0, process.communicate()[1]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Folder of an undisturbed leaderboard."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = process_of(folder, 1)
    assert process.wait(timeout=300) == 0, process.communicate()[1]
    return folder


@pytest.mark.nightly
def test_a_leaderboard_that_is_killed_three_times_ends_with_the_same_tables(undisturbed, tmp_path):
    run_with_kills(tmp_path / "killed", 1)
    for name in ("results.csv", "trials.csv"):
        expected, found = (pd.read_csv(path / name) for path in (undisturbed, tmp_path / "killed"))
        pd.testing.assert_frame_equal(found, expected, check_exact=True)


@pytest.mark.nightly
def test_two_workers_that_are_killed_three_times_end_with_a_valid_table(undisturbed, tmp_path):
    run_with_kills(tmp_path / "killed", 2, seed=1)
    table, trials = (pd.read_csv(tmp_path / "killed" / name) for name in ("results.csv", "trials.csv"))
    assert trials["model"].value_counts().to_dict() == dict.fromkeys(["lr", "din_mba"], 6)
    assert set(trials["state"]) <= {"complete", "pruned"}
    assert table["model"].tolist() == ["popularity", "lr", "din_mba"]
    assert table["gauc"].between(0, 1).all()
    best = trials[trials["state"] == "complete"].groupby("model")["validation_gauc"].max()
    assert table.set_index("model")["best_trial_gauc"].dropna().to_dict() == best.to_dict()
    # the first trial has the recipe's options, whatever the workers do
    first = pd.read_csv(undisturbed / "results.csv").set_index("model")["first_trial_gauc"]
    pd.testing.assert_series_equal(table.set_index("model")["first_trial_gauc"], first, check_exact=True)


def test_every_model_has_the_same_number_of_trials_and_nothing_to_tune_is_in_the_table_too(tmp_path):
    found, trials, table = run_leaderboard(tmp_path)
    assert trials.groupby("model").size().to_dict() == dict.fromkeys(SEARCHED, 6)
    assert table.set_index("model")["trials"].to_dict() == {model: 6 * (model != "popularity") for model in OPTIONS}  # fmt: skip
    assert found["popularity"]["values"] == {}
    assert set(found["din_mba"]["values"]) == {"training.learning_rate", "training.mba", "model.hidden"}
    assert set(found["item_knn"]["values"]) == {"model.shrinkage"}
    assert found["base"]["values"]["model.hidden"] in ((8,), (8, 4))
    for model in SEARCHED:
        own = trials[(trials["model"] == model) & (trials["state"] == "complete")]
        assert found[model]["validation_gauc"] == own["validation_gauc"].max() >= found[model]["first_gauc"]
        assert found[model]["processor_seconds"] == pytest.approx(
            trials.loc[trials["model"] == model, "processor_seconds"].sum()
        )
    chosen = table.set_index("model")["validation_gauc"]
    assert table["best"].iloc[0] == chosen.idxmax()
    assert table["second"].iloc[0] == chosen[["popularity", "item_knn", "lr"]].idxmax()
    by_key = table.set_index("model")
    best = by_key["best"].iloc[0]
    assert pd.isna(by_key.loc[best, "best_difference"])
    assert by_key["best_difference"].drop(best).to_dict() == pytest.approx(
        (by_key["gauc"] - by_key.loc[best, "gauc"]).drop(best).to_dict()
    )


def test_a_smaller_budget_afterwards_counts_the_first_trials_of_every_model(tmp_path):
    models = ("lr", "base")
    small = run_leaderboard(tmp_path / "small", models=models, n_trials=3)
    run_leaderboard(tmp_path / "large", models=models, n_trials=5)
    found, trials, table = run_leaderboard(tmp_path / "large", models=models, n_trials=3)
    assert trials.groupby("model").size().to_dict() == {"lr": 3, "base": 3}
    pd.testing.assert_frame_equal(without_timings(trials), without_timings(small[1]), check_exact=True)
    pd.testing.assert_frame_equal(without_timings(table), without_timings(small[2]), check_exact=True)
    assert {key: result["importance"] for key, result in found.items()} == {"lr": {}, "base": {}}


def test_the_processor_time_of_a_model_is_limited(tmp_path, monkeypatch):
    clock = iter(np.arange(0.0, 1e6, 30))  # every trial takes 30 seconds
    monkeypatch.setattr(search_module.time, "process_time", lambda: next(clock))
    data = seen_data()
    searches = searches_of(tmp_path, data, models=("lr", "base"), n_trials=6, processor_minutes=1.0)
    studies = search_all(searches, data, refits=2)
    assert trials_of(searches, studies).groupby("model").size().to_dict() == {"lr": 2, "base": 2}
    assert result_of(searches["lr"], studies["lr"], "")["processor_seconds"] == 60
    again = search_all(searches, data, refits=2)
    assert [len(finished_trials(study)) for study in again.values()] == [2, 2]


def test_the_first_trial_has_the_options_of_the_recipe_and_shared_options_are_drawn_alike(tmp_path):
    data = seen_data()
    searches = searches_of(tmp_path, data, models=("lr", "base"), n_trials=2)
    studies = search_all(searches, data, refits=2)
    first = {model: study.get_trials()[0].params for model, study in studies.items()}
    assert first["lr"] == {"training.learning_rate": 0.001, "training.l2": 1e-6}
    assert first["base"] == {**first["lr"], "model.hidden": "8"}
    second = {model: study.get_trials()[1].params for model, study in studies.items()}
    assert second["base"]["training.learning_rate"] == second["lr"]["training.learning_rate"]


def test_trials_are_run_round_by_round(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(
        "deep_interest.tuning.leaderboard.tune",
        lambda search, data: order.append((search.experiment.model, search.tuning.n_trials)),
    )
    monkeypatch.setattr("deep_interest.tuning.leaderboard.progress_line", lambda *args, **options: "")
    data = seen_data()
    search_all(searches_of(tmp_path, data, models=("lr", "base"), n_trials=10), data, refits=1)
    assert order == [("lr", 4), ("base", 4), ("lr", 8), ("base", 8), ("lr", 10), ("base", 10)]


def test_the_estimate_of_the_time_left_counts_trials_and_fits():
    from deep_interest.tuning.leaderboard import _Timing

    timings = [
        _Timing(finished=4, remaining=2, seconds=10.0, complete_seconds=20.0),
        _Timing(finished=0, remaining=6, seconds=float("nan"), complete_seconds=float("nan")),
    ]
    # the second model takes the median of the others: 2 × 10 + 5 × 20, and 6 × 10 + 5 × 10
    assert seconds_left(timings, workers=1, refits=5) == 2 * 10 + 5 * 20 + 11 * 10
    assert seconds_left(timings, workers=2, refits=5) == (2 * 10 + 5 * 20 + 11 * 10) / 2


def test_the_progress_line_names_trials_of_all_models(tmp_path):
    data = seen_data()
    searches = searches_of(tmp_path, data, models=("lr", "base"), n_trials=2)
    studies = search_all(searches, data, refits=2)
    line = progress_line(searches, studies, "lr", refits=2)
    assert line.startswith(
        "small · leaderboard · lr 2 of 2 trials · all models 4 of 4 · about "
    ) and line.endswith("left")


GRID = list(product((0.01, 0.02, 0.05, 0.1), ("a", "b", "c")))


def curve(rate, name):
    """Validation GAUC by epoch: good options start low, and from the second epoch on the order is that of the end."""
    final = 0.6 + rate + {"a": 0.0, "b": 0.03, "c": 0.01}[name]
    return [0.7 - final / 2, final - 0.02, final - 0.01, final]


@pytest.mark.parametrize(
    "order", [0, 1, *(pytest.param(order, marks=pytest.mark.nightly) for order in range(2, 8))]
)
def test_pruning_never_stops_the_winner_of_an_exhaustive_search(tmp_path, monkeypatch, order):
    """All 12 combinations are tried in some order: hopeless ones are stopped, the best never is."""

    def fit(tried, data, seed, *, after_evaluation):
        values = tried.recipe.models["din_mba"].training
        rate, name = values["learning_rate"], "abc"[int(values["mba"])]
        history = []
        for epoch, value in enumerate(curve(rate, name)):
            history.append({"epoch": epoch, "validation_gauc": value, "seconds": 0.0})
            after_evaluation(history)
        return type("Fitted", (), {"history": history})

    monkeypatch.setattr(search_module, "fit_seed", fit)
    ranges = SearchRanges(
        training={
            "learning_rate": SearchRange(low=0.001, high=0.2),
            "mba": SearchRange(choices=[0.0, 1.0, 2.0]),
        }
    )
    search = small_search(
        tmp_path, ranges=ranges, n_trials=len(GRID), unpruned_trials=2, unpruned_evaluations=1
    )
    search.folder.mkdir(parents=True)
    study = open_study(search)
    for rate, name in random.Random(order).sample(GRID, len(GRID)):
        study.enqueue_trial({"training.learning_rate": rate, "training.mba": float("abc".index(name))})
    study = tune(search, seen_data())
    pruned = study.get_trials(states=(TrialState.PRUNED,))
    best = max(study.get_trials(states=(TrialState.COMPLETE,)), key=lambda trial: trial.value)
    assert len(finished_trials(study)) == len(GRID)
    assert pruned, "a search without pruned trials shows nothing"
    assert best.params == {"training.learning_rate": 0.1, "training.mba": 1.0}
    assert best.value == max(curve(*options)[-1] for options in GRID)


FOUND = {
    "din": {"values": {"training.l2": 0.3, "model.hidden": (200, 80)}},
    "lr": {"values": {"training.learning_rate": 0.01}},
    "popularity": {"values": {}},
}


def test_the_recipe_adds_the_best_options_to_those_of_the_recipe():
    before = {"training": {"epochs": 6}, "models": {"din": {"training": {"l2": 0.1, "patience": 2}}}}
    assert as_recipe(before, FOUND) == {
        "training": {"epochs": 6},
        "searched": True,
        "models": {
            "din": {"training": {"l2": 0.3, "patience": 2}, "model": {"hidden": [200, 80]}},
            "lr": {"training": {"learning_rate": 0.01}},
        },
    }
    assert before["models"]["din"] == {"training": {"l2": 0.1, "patience": 2}}  # unchanged


@pytest.mark.parametrize("recipe", ["ours", "shop_leaderboard"])
def test_the_recipe_that_is_written_can_be_read_with_those_of_the_search(recipe):
    configured = {
        "ours": {"training": {"batch_size": 64}, "models": {"din": {"training": {"l2": 0.1, "patience": 2}}}},
        "shop_leaderboard": {"extends": "ours", "models": {"fm": {"training": {"l2": 0.7}}}},
    }
    settings = DatasetParameters(
        title="Shop",
        recipe=recipe,
        training={"epochs": 6},
        protocol={"name": "by_day"},
        models=["din"],
        features={"item": ["item_id"]},
    )
    written = make_recipe("shop")(FOUND, settings, Recipes.model_validate(configured), RunParameters())
    assert set(written["recipes"]) == {"shop_leaderboard"}
    read = Recipes.model_validate(configured | written["recipes"]).root["shop_leaderboard"]
    assert read.training == {"batch_size": 64, "epochs": 6}
    assert read.models["din"].training == {"l2": 0.3, "patience": 2}
    assert read.models["din"].model == {"hidden": [200, 80]}
    assert read.searched == ("din", "lr")
    assert ("fm" in read.models) == (
        recipe == "shop_leaderboard"
    )  # a second search keeps what it does not tune


def test_the_budget_of_a_leaderboard_is_that_of_every_search(tmp_path):
    searches = searches_of(tmp_path, seen_data(), n_trials=9, processor_minutes=3.0)
    assert {(s.tuning.n_trials, s.tuning.processor_minutes) for s in searches.values()} == {(9, 3.0)}
    assert len({str(search.folder) for search in searches.values()}) == len(OPTIONS)
    assert small_leaderboard(n_trials=9).n_trials == 9
