"""``kedro run`` under ``torchrun``: the results of one process, written by rank 0 alone."""

import subprocess

import numpy as np
import pandas as pd
import pytest
import torch
from support.project import copy_project, kedro
from support.ranks import PROJECT, command, variables

pytestmark = pytest.mark.cluster
SIZES = (
    "--params=simulation.users=200,simulation.items=200,simulation.categories=20,simulation.themes=4,simulation.shops=20,"
    "training.seeds=1 2,training.options.epochs=2,recipes.demo.model.embedding_dim=4"
)


def run(project, *arguments, ranks=None, env="cluster", extra=()):
    begin = kedro(*arguments, SIZES, *extra, env=env)
    if ranks:
        begin = [*command(ranks), str(PROJECT / "tests/support/kedro_rank.py"), *begin[3:]]
    return subprocess.run(
        begin, cwd=project, env=variables(), text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
    )  # fmt: skip


def outputs(project, model):
    data = project / "data/cluster"
    checkpoint = torch.load(data / f"06_models/simulated/{model}/checkpoint.pt", weights_only=True)
    predictions = pd.read_parquet(data / f"07_model_output/simulated/{model}/predictions.parquet")
    results = pd.read_csv(data / f"08_reporting/simulated/{model}/results.csv")
    return checkpoint, predictions, results.drop(columns=["train_seconds", "samples_per_second"])


@pytest.mark.parametrize("model", ["din_mba", pytest.param("popularity", marks=pytest.mark.nightly)])
def test_a_run_on_two_ranks_has_the_results_of_one_process(tmp_path, model):
    found = []
    for name, ranks in (("one", None), ("two", 2)):
        process = run(copy_project(tmp_path / name), f"--pipelines=simulated.{model}", ranks=ranks)
        assert process.returncode == 0, process.stdout
        assert process.stdout.count("Test set, means over seeds") == 1
        found.append(outputs(tmp_path / name, model))
    (one, predicted_one, table_one), (two, predicted_two, table_two) = found
    assert one["data"] == two["data"]
    for seed in range(len(one["states"])):
        for name, tensor in one["states"][seed].items():
            torch.testing.assert_close(two["states"][seed][name], tensor, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(predicted_two.to_numpy(float), predicted_one.to_numpy(float), atol=1e-5)
    for column in table_one.select_dtypes("number"):
        np.testing.assert_allclose(table_two[column], table_one[column], atol=1e-3)
    assert not list((tmp_path / "two/data").rglob(".*.part"))


def test_one_process_scores_what_two_ranks_have_trained(tmp_path):
    project = copy_project(tmp_path)
    assert run(project, "--pipelines=simulated.din", ranks=2).returncode == 0
    *_, table = outputs(project, "din")
    process = run(
        project, "--pipelines=simulated.din", extra=("--from-nodes=models.attention.din.simulated.predict",)
    )
    assert process.returncode == 0, process.stdout
    *_, again = outputs(project, "din")
    assert again["gauc"].tolist() == pytest.approx(table["gauc"].tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("pipeline", "extra", "message"),
    [
        ("tune.simulated.din", (), "error: torchrun: tune.simulated.din runs in one process"),
        ("simulated.din", ("--runner=ThreadRunner",), "error: --runner: found"),
    ],
)
def test_what_several_ranks_cannot_run_is_one_error(tmp_path, pipeline, extra, message):
    process = run(copy_project(tmp_path), f"--pipelines={pipeline}", ranks=2, extra=extra)
    assert process.returncode
    assert process.stdout.count(message) == 1, process.stdout
    assert "Traceback" not in process.stdout.split("torch/distributed")[0]
