"""A run killed in the middle, in a real process."""

import signal
import subprocess
import time

import pandas as pd
from support.project import copy_project, environment, kedro, results, run

SLOW = ["--pipelines=simulated.din", "--params=training.checkpoint_seconds=0,training.options.epochs=6"]


def test_a_run_killed_while_training_ends_like_one_that_was_not(tmp_path):
    undisturbed, killed = (copy_project(tmp_path / name) for name in ("undisturbed", "killed"))
    done = run(undisturbed, *SLOW)
    assert done.returncode == 0, done.stdout
    process = subprocess.Popen(
        kedro(*SLOW), cwd=killed, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    state = killed / "data/smoke/06_models/simulated/din/seed_1.pt"
    deadline = time.monotonic() + 300
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert state.exists()
    assert process.poll() is None, "the run must still be training when it is killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "data/smoke/06_models/simulated/din/checkpoint.pt").exists()
    done = run(killed, *SLOW)
    assert done.returncode == 0, done.stdout
    assert "resumed at epoch" in done.stdout
    same = "data/smoke/07_model_output/simulated/din/predictions.parquet"
    pd.testing.assert_frame_equal(
        pd.read_parquet(killed / same), pd.read_parquet(undisturbed / same), check_exact=True
    )
    pd.testing.assert_frame_equal(
        results(killed, "simulated/din"), results(undisturbed, "simulated/din"), check_exact=True
    )


def test_a_file_that_is_half_written_is_never_read(tmp_path):
    project = copy_project(tmp_path / "project")
    assert run(project, "--pipelines=samples.simulated").returncode == 0
    samples = project / "data/smoke/05_model_input/simulated/samples.parquet"
    (samples.parent / ".samples.parquet.x.part").write_bytes(
        samples.read_bytes()[:1000]
    )  # what a kill leaves behind
    done = run(project, "--pipelines=simulated.popularity")
    assert done.returncode == 0, done.stdout
