import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from support.training import small_data

from deep_interest.errors import InputError
from deep_interest.training.parallel import map_seeds
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Experiment, train_experiment


def identify(word: str, seed: int) -> tuple[str, int, int]:
    logger = logging.getLogger("deep_interest.test")
    logger.debug("below the level of the parent")
    logger.warning("compiling for %s", word, extra={"once": True})
    logger.warning("fitting %s", word, extra={"fit": f"{word} {seed}"})
    return f"{word} {seed}", os.getpid(), torch.get_num_threads()


def refuse(word: str, seed: int) -> None:
    raise InputError(f"{word} {seed} is refused")


@pytest.mark.slow
def test_seeds_are_fitted_in_processes_of_one_thread_in_their_order(caplog, capfd):
    results = map_seeds(identify, ("seed",), (3, 1, 2), processes=2)
    lines = [record.getMessage() for record in caplog.records]
    assert sorted(lines) == ["compiling for seed", *["fitting seed"] * 3]
    assert {record.fit for record in caplog.records if hasattr(record, "fit")} == {
        "seed 1",
        "seed 2",
        "seed 3",
    }
    assert "fitting" not in capfd.readouterr().err  # only this process shows them
    assert [text for text, _, _ in results] == ["seed 3", "seed 1", "seed 2"]
    assert os.getpid() not in {pid for _, pid, _ in results}
    assert {threads for _, _, threads in results} == {1}


def describe(arrays: tuple, seed: int) -> list:
    return [(type(array).__name__, str(getattr(array, "filename", None)), array.tolist()) for array in arrays]


@pytest.mark.slow
def test_a_mapped_log_is_not_copied_into_the_processes(tmp_path):
    np.save(tmp_path / "log.npy", np.arange(6).reshape(2, 3))
    whole = np.load(tmp_path / "log.npy", mmap_mode="c")
    for found in map_seeds(describe, ((whole, whole[1:], np.arange(2)),), (1, 2), processes=2):
        assert found[0] == ("memmap", str(tmp_path / "log.npy"), [[0, 1, 2], [3, 4, 5]])
        assert found[1:] == [("ndarray", "None", [[3, 4, 5]]), ("ndarray", "None", [0, 1])]


def refuse_or_wait(folder: str, seed: int) -> None:
    Path(folder, str(seed)).write_text(str(os.getpid()))
    if seed == 1:
        raise InputError("seed 1 is refused")
    time.sleep(120)


@pytest.mark.slow
def test_when_a_fit_fails_the_others_end_too(tmp_path):
    with pytest.raises(InputError, match="seed 1 is refused"):
        map_seeds(refuse_or_wait, (str(tmp_path),), (1, 2), processes=2)
    written = [file.read_text() for file in tmp_path.iterdir()]
    pids = [int(text) for text in written if text]  # a process may have ended before it wrote its id
    assert wait_for(lambda: [pid for pid in pids if alive(pid)], lambda left: not left, seconds=30) == []
    assert len(map_seeds(identify, ("seed",), (1, 2), processes=2)) == 2  # in new processes


@pytest.mark.parametrize(("seeds", "processes"), [((1,), 4), ((1, 2), 1)])
def test_a_single_seed_or_process_needs_no_other_process(seeds, processes):
    assert {pid for _, pid, _ in map_seeds(identify, ("seed",), seeds, processes=processes)} == {os.getpid()}


def report_pids(connection):
    connection.send({pid for _, pid, _ in map_seeds(identify, ("seed",), (1, 2), processes=2)})


@pytest.mark.slow
def test_a_process_of_another_pool_starts_no_processes_for_which_it_would_wait_at_its_end():
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=report_pids, args=(writer,))
    process.start()
    try:
        assert reader.poll(60)
        assert reader.recv() == {process.pid}
        process.join(30)
        assert process.exitcode == 0
    finally:
        process.kill()


@pytest.mark.slow
def test_an_error_of_a_fit_is_the_runs():
    with pytest.raises(InputError, match=r"seed [12] is refused"):
        map_seeds(refuse, ("seed",), (1, 2), processes=2)


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_a_bit(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = []
    for processes in (1, 2):
        run = RunParameters(device="cpu", workspace=str(tmp_path / str(processes)), processes=processes)
        recipe = Recipe(
            training={"batch_size": 32, "epochs": 1}, model={"embedding_dim": 4, "hidden": (8, 4)}
        )
        experiment = Experiment("small", "gru_augru", RowOptions({"aux_weight": 1.0}), recipe, (1, 2), run)
        found.append(train_experiment(experiment, small_data()))
    torch.set_num_threads(threads)
    (one, curves), (two, other_curves) = found
    for state, other in zip(one["states"], two["states"], strict=True):
        for name, tensor in state.items():
            assert torch.equal(tensor, other[name]), name
    pd.testing.assert_frame_equal(curves.drop(columns="seconds"), other_curves.drop(columns="seconds"))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bst", "dmin", "din_positions", "lstm"])
def test_two_threads_give_the_same_bits_every_time(model, tmp_path):
    data, threads = small_data(users=300), torch.get_num_threads()
    training = {"batch_size": 900, "epochs": 1, "learning_rate": 0.01}
    recipe, found = Recipe(training=training, model={"embedding_dim": 32}), []
    torch.set_num_threads(2)
    for attempt in range(3):
        run = RunParameters(device="cpu", workspace=str(tmp_path / str(attempt)), processes=1, threads=2)
        checkpoint, _ = train_experiment(Experiment("small", model, RowOptions({}), recipe, (1,), run), data)
        found.append(checkpoint["states"][0])
    torch.set_num_threads(threads)
    for state in found[1:]:
        assert all(torch.equal(state[name], tensor) for name, tensor in found[0].items())


SLEEPER = """
import os, sys, time
from pathlib import Path
from deep_interest.training.parallel import map_seeds

def wait(folder, seed):
    Path(folder, str(seed)).write_text(str(os.getpid()))
    time.sleep(60)

if __name__ == "__main__":
    map_seeds(wait, (sys.argv[1],), (1, 2), processes=2)
"""


@pytest.mark.slow
def test_no_fit_outlives_a_run_that_is_killed(tmp_path):
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    folder = tmp_path / "pids"
    folder.mkdir()
    process = subprocess.Popen([sys.executable, str(script), str(folder)], stderr=subprocess.DEVNULL)
    pids = wait_for(
        lambda: [int(f.read_text() or 0) for f in folder.iterdir()],
        lambda found: len(found) == 2 and all(found),
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait_for(lambda: [pid for pid in pids if alive(pid)], lambda left: not left, seconds=20) == []


def wait_for(look, good, *, seconds=60):
    deadline = time.monotonic() + seconds
    while not good(found := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_like_the_system_does(folder: str, seed: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_the_system_kills_is_reported_and_the_next_call_has_new_ones(tmp_path):
    with pytest.raises(
        InputError,
        match=r"one of 2 processes was killed by the system \(signal 9\), most likely because memory ran out; .*training\.processes=1",
    ):
        map_seeds(end_like_the_system_does, (str(tmp_path),), (1, 2), processes=2)
    assert len(map_seeds(identify, ("seed",), (1, 2), processes=2)) == 2


@pytest.mark.slow
def test_a_process_that_ends_for_another_reason_is_not_blamed_on_memory():
    with pytest.raises(
        InputError, match=r"one of 2 processes ended with exit code 7 .* its own error is above"
    ):
        map_seeds(os._exit, (), (7, 7), processes=2)


@pytest.mark.slow
def test_a_script_without_a_main_guard_can_train_in_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import math\nfrom deep_interest.training.parallel import map_seeds\n"
        "print(map_seeds(math.factorial, (), (4, 5), processes=2))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[24, 120]\n", "")
