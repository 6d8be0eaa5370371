"""Killed runs, as separate processes."""

import signal
import subprocess
import time

import pandas as pd
from support.forked import run
from support.project import copy_project, environment, kedro, results

SLOW_RUN = ["--pipelines=simulated.din", "--params=training.checkpoint_seconds=0,training.options.epochs=3"]


def test_a_run_killed_during_training_resumes_with_the_same_result(tmp_path):
    uninterrupted, killed = (copy_project(tmp_path / name) for name in ("uninterrupted", "killed"))
    done = run(uninterrupted, *SLOW_RUN)
    assert done.returncode == 0, done.stdout
    process = subprocess.Popen(
        kedro(*SLOW_RUN), cwd=killed, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
    done = run(killed, *SLOW_RUN)
    assert done.returncode == 0, done.stdout
    assert "resumed at epoch" in done.stdout
    path = "data/smoke/07_model_output/simulated/din/predictions.parquet"
    pd.testing.assert_frame_equal(
        pd.read_parquet(killed / path), pd.read_parquet(uninterrupted / path), check_exact=True
    )
    pd.testing.assert_frame_equal(
        results(killed, "simulated/din"), results(uninterrupted, "simulated/din"), check_exact=True
    )


def test_a_partially_written_file_is_not_read(tmp_path):
    project = copy_project(tmp_path / "project")
    assert run(project, "--pipelines=samples.simulated").returncode == 0
    samples = project / "data/smoke/05_model_input/simulated/samples.parquet"
    (samples.parent / ".samples.parquet.x.part").write_bytes(
        samples.read_bytes()[:1000]
    )  # what a killed run leaves
    done = run(project, "--pipelines=simulated.popularity")
    assert done.returncode == 0, done.stdout
