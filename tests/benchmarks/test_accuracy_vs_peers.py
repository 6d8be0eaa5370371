"""The samples that other libraries take."""

import subprocess
import sys
from types import SimpleNamespace

import accuracy_vs_peers
import numpy as np
import optuna
import pandas as pd
import psutil
import pytest
from accuracy_vs_peers import arrays_of, fit, our_scores, predictions_file, samples_file, tuned_rows
from peers.recbole_files import write_atomic_files


def test_candidates_and_behaviours_have_the_same_item_codes():
    """Item 2 has no training sample: samples number it, the feature does not."""
    features = SimpleNamespace(
        items={"item_id": np.array([0, 1, 0, 2, 3]), "category": np.array([0, 1, 1, 2, 2])}
    )
    behaviors = np.array([1, 3, 4, 2, 4])  # of users 1 and 2, in the numbers of samples
    log = SimpleNamespace(
        offsets=np.array([0, 0, 3, 5]), fields={"item_id": features.items["item_id"][behaviors]}
    )
    rows = pd.DataFrame({"user": [1, 1, 2], "item": [4, 2, 4], "label": [1, 0, 1], "history_end": [2, 2, 1]})
    found = arrays_of(rows, log, features, max_len=3, rng=np.random.default_rng(0))
    assert found["item"].tolist() == [3, 0, 3]
    assert found["category"].tolist() == [2, 1, 2]
    assert found["history_item"].tolist() == [[1, 2, 0], [1, 2, 0], [0, 0, 0]]
    assert found["history_category"].tolist() == [[1, 2, 0], [1, 2, 0], [0, 0, 0]]
    assert found["length"].tolist() == [2, 2, 1]


def test_recbole_gets_the_samples_and_no_user_that_gives_away_the_label(tmp_path):
    """Positive and negative samples alternate, so that a user by the number of the row would be the label."""
    train = {
        "item": np.array([3, 1, 2, 4]), "label": np.array([1, 0, 1, 0]), "length": np.array([1, 2, 2, 1]),
        "category": np.array([1, 1, 2, 2]),
        "history_item": np.array([[2, 0], [1, 3], [4, 1], [2, 0]]), "history_category": np.array([[2, 0], [1, 1], [2, 1], [2, 0]]),
        "negative_item": np.array([[1, 0], [2, 4], [3, 3], [1, 0]]), "negative_category": np.array([[1, 0], [2, 2], [1, 1], [1, 0]]),
    }  # fmt: skip
    write_atomic_files(
        tmp_path,
        {name: np.tile(a, (16,) + (1,) * (a.ndim - 1)) for name, a in train.items()},
        [],
        negatives=True,
    )
    found = pd.read_csv(tmp_path / "jagged.train.inter", sep="\t")
    assert found.columns.tolist() == ["user_id:token", "item_id:token", "label:float", "item_id_list:token_seq", "neg_item_id_list:token_seq"]  # fmt: skip
    assert found["user_id:token"].nunique() == 1
    assert found.iloc[0, 1:].tolist() == [3, 1, "2 2", "1 1"], "a full window in the first sample"
    assert found.iloc[1:5, 1:].to_numpy().tolist() == [
        [1, 0, "1 3", "2 4"], [2, 1, "4 1", "3 3"], [4, 0, "2", "1"], [3, 1, "2", "1"],
    ]  # fmt: skip
    assert (tmp_path / "jagged.item").read_text().splitlines()[1:] == ["1\tc1", "2\tc2", "3\tc1", "4\tc2"]


def test_our_predictions_are_those_of_the_test_samples(tmp_path):
    """Both have the items' numbers of samples, which are not the codes that libraries have."""
    for path in (
        samples := samples_file("shop", data=tmp_path),
        predictions_file("shop", "din", data=tmp_path),
    ):
        path.parent.mkdir(parents=True)
    rows = pd.DataFrame({"user": [1, 1, 2], "item": [3, 4, 2], "split": ["train", "test", "test"]})
    rows.to_parquet(samples)
    predictions = rows.drop(columns="split").iloc[1:].assign(seed_1=[0.2, 0.6], seed_2=[0.3, 0.5])
    predictions.to_parquet(path)
    assert our_scores("shop", "din", data=tmp_path).tolist() == [[0.2, 0.6], [0.3, 0.5]]
    predictions.iloc[::-1].to_parquet(path)
    with pytest.raises(SystemExit, match="predicts other samples"):
        our_scores("shop", "din", data=tmp_path)


def test_the_rows_of_a_leaderboard_are_compared_and_without_any_it_is_an_error(tmp_path):
    with pytest.raises(SystemExit, match=r"no tuned din_items or din or .*leaderboard\.shop"):
        tuned_rows("shop", "din", data=tmp_path)
    predictions = predictions_file("shop", "din_mba_leaderboard", data=tmp_path)
    predictions.parent.mkdir(parents=True)
    predictions.touch()
    assert tuned_rows("shop", "din", data=tmp_path) == {"din_mba": "din_mba_leaderboard"}


RUNNER = """
import json, sys, time
import numpy as np
job = json.load(open(sys.argv[1]))
print("a line of the library")
for epoch, value in enumerate(job["values"]):
    print(json.dumps({"epoch": epoch + 1, "validation_gauc": value}), flush=True)
    time.sleep(job["seconds"])
np.savez(job["out"], best=max(job["values"]), history=job["values"])
"""
JOB = {"model": "din", "learning_rate": 0.1, "l2": 0.0, "seed": 1, "values": [0.6, 0.7, 0.65], "seconds": 0.0}


@pytest.fixture
def runners(tmp_path, monkeypatch):
    """Starts of a library's runner."""
    started = []
    script = tmp_path / "runner.py"
    script.write_text(RUNNER)

    def command(peer, order, work):
        started.append(peer)
        return [sys.executable, str(script), str(order)]

    monkeypatch.setattr(accuracy_vs_peers, "command", command)
    return started


def test_a_fit_reports_its_epochs_and_is_repeated_from_its_file(tmp_path, runners):
    seen: list[tuple[int, float]] = []
    for _ in range(2):
        result = fit("recbole", JOB, work=tmp_path, report=lambda *epoch: seen.append(epoch))
        assert float(result["best"]) == 0.7
    assert seen == 2 * [(0, 0.6), (1, 0.7), (2, 0.65)]
    assert runners == ["recbole"]


@pytest.mark.slow
def test_a_fit_that_is_ended_early_leaves_no_process_and_is_not_repeated(tmp_path, runners):
    seen: list[float] = []

    def report(epoch: int, value: float) -> None:
        seen.append(value)
        if epoch == 1:
            raise optuna.TrialPruned

    for _ in range(2):
        with pytest.raises(optuna.TrialPruned):
            fit(
                "recbole",
                JOB | {"seconds": 1.0, "values": [0.6, 0.5, *[0.5] * 60]},
                work=tmp_path,
                report=report,
            )
    assert seen == 2 * [0.6, 0.5]
    assert runners == ["recbole"]
    children = psutil.Process().children(recursive=True)
    assert not [child for child in children if "runner.py" in " ".join(child.cmdline())]


def test_a_runner_that_fails_is_an_error_and_leaves_no_result(tmp_path, runners):
    with pytest.raises(subprocess.CalledProcessError):
        fit("recbole", JOB | {"values": []}, work=tmp_path)
    assert not list(tmp_path.rglob("*.npz"))
