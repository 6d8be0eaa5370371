"""Ranks and launchers that are killed: a restart ends with the result of an undisturbed run."""

import subprocess
import time

import numpy as np
import pytest
from support.ranks import train, trained, written

pytestmark = pytest.mark.cluster
SETTINGS = {
    "models": {"din": {"training": {"mba": 0.05}}, "dien": {"evolution": "augru", "aux_weight": 1.0}},
    "training": {"learning_rate": 0.01, "batch_size": 16, "epochs": 2}, "checkpoint_seconds": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("undisturbed"), SETTINGS, ranks=2)


def assert_same_bits(folder, undisturbed):
    for model, expected in undisturbed.items():
        found = written(folder, model)
        for name in expected.keys() - {"losses"}:  # those before the kill were recorded by the killed process
            np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{model}, {name}")


@pytest.mark.parametrize(
    ("rank", "step"),
    [(0, 5), *(pytest.param(*kill, marks=pytest.mark.nightly) for kill in ((1, 5), (0, 14), (1, 20)))],
)
def test_a_killed_rank_is_restarted_and_the_result_is_the_same(tmp_path, undisturbed, rank, step):
    kill = {"rank": rank, "step": step, "mark": str(tmp_path / "killed")}
    process = train(tmp_path, SETTINGS | {"kill": kill}, ranks=2, restarts=1)
    assert process.returncode == 0, process.stdout
    assert (tmp_path / "killed").exists()
    assert_same_bits(tmp_path, undisturbed)


def test_a_killed_launcher_leaves_no_process_and_the_next_run_resumes(tmp_path, undisturbed):
    kill = {"rank": 1, "step": 9, "launcher": True, "mark": str(tmp_path / "killed")}
    process = train(tmp_path, SETTINGS | {"kill": kill}, ranks=2)
    assert process.returncode == -9
    deadline = time.monotonic() + 20
    while _processes_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _processes_of(tmp_path)
    process = train(tmp_path, SETTINGS | {"kill": kill}, ranks=2)
    assert process.returncode == 0, process.stdout
    assert_same_bits(tmp_path, undisturbed)


@pytest.mark.nightly
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_saved_state_is_continued_by_another_number_of_ranks(tmp_path, undisturbed, ranks):
    settings = SETTINGS | {"models": {"din": SETTINGS["models"]["din"]}}
    kill = {"rank": 0, "step": 17, "mark": str(tmp_path / "killed")}
    assert train(tmp_path, settings | {"kill": kill}, ranks=2).returncode
    process = train(tmp_path, settings, ranks=ranks)
    assert process.returncode == 0, process.stdout
    found, expected = written(tmp_path, "din"), undisturbed["din"]
    assert len(found["losses"]) < len(expected["losses"])
    for name in expected.keys() - {"losses"}:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)


@pytest.mark.nightly
def test_a_damaged_state_is_not_used(tmp_path, undisturbed):
    kill = {"rank": 0, "step": 9, "mark": str(tmp_path / "killed")}
    assert train(tmp_path, SETTINGS | {"kill": kill}, ranks=2).returncode
    (rows,) = tmp_path.glob("small/din/seed_1.ranks/step_*/rows_00001.pt")
    content = bytearray(rows.read_bytes())
    content[len(content) // 2] ^= 1
    rows.write_bytes(content)
    process = train(tmp_path, SETTINGS, ranks=2)
    assert process.returncode == 0, process.stdout
    assert "the fit starts again" in process.stdout
    assert_same_bits(tmp_path, undisturbed)


def _processes_of(folder):
    found = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True, check=False)
    return found.stdout.split()
