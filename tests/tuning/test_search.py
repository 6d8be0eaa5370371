import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from optuna.trial import TrialState
from support.project import environment
from support.training import small_data
from support.tuning import RANGES, data_to_kill, seen_data, small_search

from deep_interest.errors import InputError
from deep_interest.training.data import SampleSet
from deep_interest.tuning.parameters import SearchRange, SearchRanges, TuningParameters
from deep_interest.tuning.search import tune
from deep_interest.tuning.study import FINISHED, best_values, open_study, trial_table

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]


def search_process(folder, n_trials, workers, epochs=3):
    command = [
        sys.executable,
        str(TESTS / "support/tuning.py"),
        str(folder),
        str(n_trials),
        str(workers),
        str(epochs),
    ]
    return subprocess.Popen(
        command, cwd=TESTS, env=environment() | {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def kill_when(process, search, ready):
    """Kill the searching process once its trials are ``ready``.

    Returns:
        The states of its trials, and the numbers of the running trials whose options were drawn: they are to be repeated.
    """
    deadline, study, trials = time.monotonic() + 300, None, []
    while time.monotonic() < deadline and not ready(trials):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)
        try:
            study = study or opened(search)  # slower than a short trial
            trials = study.get_trials(deepcopy=False)
        except Exception:  # the folder or the study does not exist yet
            study, trials = None, []
    process.send_signal(signal.SIGKILL)
    process.wait()
    study = open_study(search)
    return states(study), [trial.number for trial in started(study.get_trials(deepcopy=False))]


def opened(search):
    """Open the study while the searching process does not: only one of them can create its tables."""
    with search.exclusive():
        return open_study(search)


def started(trials):
    """Return the running trials whose options are drawn."""
    return [trial for trial in trials if trial.state == TrialState.RUNNING and len(trial.params) == 2]


def states(study):
    return [trial.state for trial in study.get_trials(deepcopy=False)]


def finished(study):
    """Return options, evaluations and value of the finished trials, in order."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state in FINISHED]
    return [(trial.params, trial.intermediate_values, trial.value) for trial in trials]


def test_best_value_is_that_of_training_with_the_best_options(tmp_path):
    from deep_interest.training.runs import fit_seed

    search, data = small_search(tmp_path / "a"), seen_data()
    best = best_values(tune(search, data), search)
    recipe = search.experiment.recipe.with_values("din_mba", best["values"])
    experiment = replace(small_search(tmp_path / "b").experiment, recipe=recipe)
    again = fit_seed(experiment, data, 1)
    assert max(row["validation_gauc"] for row in again.history) == best["validation_gauc"]
    assert best["finished"] == 6
    for name, value in best["values"].items():
        found_range = RANGES.by_name()[name]
        assert found_range.low <= value <= found_range.high


def test_killed_search_resumes_to_the_trials_of_an_uninterrupted_one(tmp_path):
    undisturbed = tune(small_search(tmp_path / "undisturbed", n_trials=6, epochs=12), data_to_kill())
    process = search_process(tmp_path / "killed", 6, 1, 12)
    search = small_search(tmp_path / "killed", n_trials=6, epochs=12)
    left, again = kill_when(process, search, lambda trials: len(trials) > 2 and started(trials))
    assert left.count(TrialState.RUNNING) == 1
    assert sum(state in FINISHED for state in left) < 6
    ended = search_process(tmp_path / "killed", 6, 1, 12)
    assert ended.wait(timeout=300) == 0, ended.communicate()[1]
    study = open_study(search)
    assert sum(state in FINISHED for state in states(study)) == 6
    assert TrialState.RUNNING not in states(study)
    assert finished(study) == finished(undisturbed)
    retried = trial_table(study).dropna(subset=["retry_of"])
    assert retried["retry_of"].tolist() == again


def test_finished_search_continues_with_a_larger_n_trials(tmp_path):
    few = tune(small_search(tmp_path / "a", n_trials=3), seen_data())
    assert len(finished(few)) == 3
    fewer = small_search(tmp_path / "a", n_trials=2)
    assert finished(tune(fewer, seen_data())) == finished(few)
    assert best_values(few, fewer)["finished"] == 3
    more = tune(small_search(tmp_path / "a", n_trials=5), seen_data())
    again = tune(small_search(tmp_path / "a", n_trials=5), seen_data())
    at_once = tune(small_search(tmp_path / "b", n_trials=5), seen_data())
    assert finished(more) == finished(again) == finished(at_once)


@pytest.mark.nightly
def test_two_killed_workers_finish_exactly_n_trials(tmp_path):
    search = small_search(tmp_path, n_trials=8, epochs=12)
    process = search_process(tmp_path, 8, 2, 12)
    left, again = kill_when(process, search, lambda trials: len(trials) > 2 and len(started(trials)) == 2)
    ended = search_process(tmp_path, 8, 2, 12)
    assert ended.wait(timeout=300) == 0, ended.communicate()[1]
    study = open_study(search)
    trials = finished(study)
    assert len(trials) == 8
    assert len(states(study)) == 8 + left.count(TrialState.RUNNING)
    assert sorted(trial_table(study)["retry_of"].dropna()) == again
    assert len({tuple(params.values()) for params, *_ in trials}) == 8
    spans = [(t.datetime_start, t.datetime_complete) for t in study.get_trials(deepcopy=False)]
    assert any(a[0] < b[0] < a[1] for a in spans for b in spans), "no two trials ran at the same time"


def test_two_runs_cannot_use_one_study_at_the_same_time(tmp_path):
    search = small_search(tmp_path)
    search.folder.mkdir(parents=True)
    with (
        FileLock(search.folder / "study.lock"),
        pytest.raises(InputError, match="another run is tuning"),
    ):
        tune(search, seen_data())


def test_samples_replaced_during_the_start_stop_the_search(tmp_path, monkeypatch):
    data, other = seen_data(), seen_data(seed=1)

    def map_with_replaced_files(work, shared, workers, *, processes):
        return [work(*(other if value is data else value for value in shared), worker) for worker in workers]

    monkeypatch.setattr("deep_interest.tuning.search.map_seeds", map_with_replaced_files)
    with pytest.raises(InputError, match="another run replaced the samples while the search was starting"):
        tune(small_search(tmp_path), data)


def test_bad_trials_are_pruned(tmp_path):
    ranges = SearchRanges(training={"learning_rate": SearchRange(low=1e-7, high=0.05, log=True)})
    options = {"n_trials": 14, "epochs": 6, "ranges": ranges}
    table = trial_table(tune(small_search(tmp_path / "a", **options), seen_data()))
    pruned = table[table["state"] == "pruned"]
    assert len(pruned)
    assert (pruned["evaluations"] < 6).all()
    assert (pruned["evaluations"] > 1).all()  # never after the first
    assert (pruned["trial"] >= 2).all()  # and not among the first trials
    best = table.loc[table["validation_gauc"].idxmax()]
    assert best["state"] == "complete"
    first = int(pruned["trial"].min())
    options |= {"n_trials": first + 1, "pruning": False}
    whole = trial_table(tune(small_search(tmp_path / "b", **options), seen_data()))
    assert whole["training.learning_rate"][first] == table["training.learning_rate"][first]
    assert whole["state"].tolist() == ["complete"] * (first + 1)


def test_diverged_trial_counts_as_finished_and_is_never_the_best(tmp_path):
    ranges = SearchRanges(training={"learning_rate": SearchRange(choices=(0.01, 1e30))})
    search = small_search(tmp_path, n_trials=6, ranges=ranges, training={"optimizer": "sgd"})
    study = tune(search, seen_data())
    table = trial_table(study)
    assert table["diverged"].any()
    assert not table["diverged"].all()
    assert best_values(study, search)["values"] == {"training.learning_rate": 0.01}


def test_search_does_not_depend_on_the_test_set(tmp_path, monkeypatch):
    from deep_interest.pipelines.tune.nodes import hide_test

    data, other = small_data(), small_data()
    tests = other.samples["split"] == "test"
    other.samples.loc[tests, "label"] = 1 - other.samples.loc[tests, "label"]
    other.samples.loc[tests, "item"] = 1
    splits, build = [], SampleSet.build
    monkeypatch.setattr(
        SampleSet, "build",
        lambda store, samples, split, **options: splits.append((split, set(samples["split"].unique())))
        or build(store, samples, split, **options),
    )  # fmt: skip
    results = []
    for name, whole in (("a", data), ("b", other)):
        seen = type(whole)(whole.log, whole.features, hide_test(whole.samples))
        results.append(finished(tune(small_search(tmp_path / name), seen)))
    assert results[0] == results[1]
    assert all("test" not in present for _, present in splits)
    with pytest.raises(InputError, match="the data contain test samples"):
        tune(small_search(tmp_path / "c"), data)


def test_study_refuses_other_data_or_settings(tmp_path):
    tune(small_search(tmp_path, n_trials=1), seen_data())
    with pytest.raises(InputError, match=r"study was started with other data, .* remove the file"):
        tune(small_search(tmp_path, n_trials=2), seen_data(seed=1))
    with pytest.raises(InputError, match="started with other recipe"):
        tune(small_search(tmp_path, n_trials=2, epochs=2), seen_data())
    with pytest.raises(InputError, match="started with other seeds"):
        tune(small_search(tmp_path, n_trials=2, seed=5), seen_data())
    narrower = SearchRanges(training={"mba": SearchRange(low=1, high=2)})
    with pytest.raises(InputError, match="started with other ranges"):
        tune(small_search(tmp_path, n_trials=2, ranges=narrower), seen_data())


def test_dataset_without_validation_samples_cannot_be_tuned(tmp_path):
    data = seen_data()
    train = type(data)(data.log, data.features, data.samples[data.samples["split"] == "train"])
    with pytest.raises(InputError, match="no validation samples"):
        tune(small_search(tmp_path), train)


def test_option_set_by_the_run_cannot_be_searched(tmp_path):
    search = small_search(tmp_path)
    run = search.experiment.run.model_copy(update={"options": {"mba": 1.0}})
    experiment = replace(search.experiment, run=run)
    with pytest.raises(InputError, match=r"training\.mba is set by the run, but tuning\.models searches it"):
        tune(replace(search, experiment=experiment), seen_data())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"ranges": {"training": {"lamda": {"low": 0, "high": 1}}}},
            "training.lamda is not a training option",
        ),
        ({"searched": ["training.l2"]}, "training.l2 has no range; add it under ranges"),
        ({"models": {"dim": ["training.mba"]}}, "model 'dim' is unknown"),
        (
            {"ranges": {"training": {"mba": {"low": 2, "high": 1}}}},
            "expected low below high, found low 2.0 and high 1.0",
        ),
        (
            {"ranges": {"training": {"mba": {"low": 0, "high": 1, "log": True}}}},
            "logarithmic scale needs low above 0",
        ),
        (
            {"ranges": {"training": {"mba": {"low": 0.5, "high": 3, "integer": True}}}},
            "expected whole numbers, found low 0.5",
        ),
        (
            {"ranges": {"training": {"selection": {"choices": ["gauc", "auc"]}}}},
            "training.selection is set by the search itself",
        ),
    ],
)
def test_mistakes_in_the_parameters_are_reported(change, message):
    block = {"ranges": {"training": {"mba": {"low": 0.1, "high": 1}}}, "searched": ["training.mba"]}
    with pytest.raises(ValueError, match=message):
        TuningParameters.model_validate(block | change)


def test_option_that_the_model_does_not_have_is_reported():
    ranges = SearchRanges(model={"aux_weight": SearchRange(low=0, high=4)})
    tuning = TuningParameters(ranges=ranges, searched=("model.aux_weight",))
    assert list(tuning.ranges_of("dien")) == ["model.aux_weight"]
    with pytest.raises(
        InputError, match=r"model\.aux_weight is not an option of din; its options are .*model\.normalize"
    ):
        tuning.ranges_of("din")


def test_tuned_values_override_recipe_and_model_options():
    search = small_search(Path("nowhere"))
    recipe = search.experiment.recipe.with_values("din_mba", {"training.mba": 3.0, "model.embedding_dim": 6})
    recipe = recipe.with_values("din_mba", {"training.learning_rate": 0.5})
    training = recipe.training_of("din_mba", search.experiment.options, {})
    assert (training.mba, training.learning_rate, training.epochs) == (3.0, 0.5, 3)
    assert recipe.model_of("din_mba", search.experiment.options).embedding_dim == 6
    assert recipe.model_of("din", search.experiment.options).embedding_dim == 4
    assert np.isclose(search.experiment.recipe.training_of("din_mba", search.experiment.options, {}).mba, 0.0)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (
            "batch_size",
            {"low": 64, "high": 1024},
            r"the option does not accept 369\.5\d* \(.*integer.*with integer: true",
        ),
        (
            "batch_size",
            {"low": 0, "high": 1024, "integer": True},
            r"training\.batch_size: the option does not accept 0 \(",
        ),
        (
            "learning_rate",
            {"low": -0.1, "high": 0.1},
            r"training\.learning_rate: the option does not accept -0\.1 \(",
        ),
        (
            "optimizer",
            {"choices": ["adam", "adamm"]},
            r"training\.optimizer: the option does not accept adamm \(",
        ),
    ],
)
def test_range_with_invalid_values_is_refused_before_any_trial(name, values, message):
    ranges = SearchRanges(training={name: SearchRange(**values)})
    tuning = TuningParameters(ranges=ranges, searched=(f"training.{name}",))
    with pytest.raises(InputError, match=message):
        tuning.ranges_of("din")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("batch_size", {"low": 64, "high": 1024, "integer": True}),
        ("batch_size", {"choices": [64, 128]}),
        ("gradient_norm", {"low": 0.5, "high": 5}),
        ("decoupled", {"choices": [True, False]}),
    ],
)
def test_range_of_valid_values_is_accepted(name, values):
    ranges = SearchRanges(training={name: SearchRange(**values)})
    tuning = TuningParameters(ranges=ranges, searched=(f"training.{name}",))
    assert list(tuning.ranges_of("din")) == [f"training.{name}"]
