"""Predictions next to small real runs, each a process of its own: memory within a factor of 2, time within one of 10."""

import json
import subprocess
import sys

import pytest
from support.planning import own_tables
from support.project import PROJECT, environment

from deep_interest.models.registry import model_config
from deep_interest.planning.counts import Counts
from deep_interest.planning.measurements import measurements
from deep_interest.planning.stages import Costs, Machine, Workload
from deep_interest.training.parameters import TrainingOptions

USERS, DIM, EPOCHS = 3000, 32, 2
TRAIN = f"""
import json, sys, time
from pathlib import Path
from deep_interest.process import prepare_process
prepare_process()
import torch
import cost_model
torch.set_num_threads(1)
from support.planning import own_tables
from deep_interest.pipelines.samples import nodes
from deep_interest.training.content import Data
from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import train_experiment

tables, dataset = own_tables({USERS})
ids = nodes.build_vocabularies(tables.behaviors, tables.items)
log, features, samples, _ = nodes.samples_from_behaviors(tables.behaviors, tables.items, *ids, {{}}, dataset)
recipe = Recipe(training={{"epochs": {EPOCHS}, "patience": 9, "batch_size": 512}}, model={{"embedding_dim": {DIM}}})
run = RunParameters(workspace=sys.argv[1], processes=1, threads=1, device="cpu")
fits = []
for name in ("first", "second"):  # the first one reads the compiled kernels
    experiment = Experiment("shop", "din", RowOptions({{}}), recipe, (1,), run, variant=f"_{{name}}")
    begin = time.perf_counter()
    checkpoint, _ = train_experiment(experiment, Data(log, features, samples))
    fits.append(time.perf_counter() - begin)
torch.save(checkpoint, sys.argv[1] + "/checkpoint.pt")
print(json.dumps({{
    "seconds": fits[-1], "peak": cost_model.peak_bytes(),
    "users": int(tables.behaviors["user"].nunique()), "behaviors": len(tables.behaviors), "samples": len(samples),
    "checkpoint": Path(sys.argv[1], "checkpoint.pt").stat().st_size,
}}))
"""


def output(*command):
    variables = environment() | {
        "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT / 'tests'}:{PROJECT / 'benchmarks'}"
    }
    done = subprocess.run([sys.executable, *command], env=variables, text=True, capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def costs(counts, **common):
    dataset = own_tables(3)[1]
    config = model_config("din", {}, common=common)
    options = TrainingOptions(epochs=EPOCHS, patience=9, batch_size=512)
    planned = Workload("shop", "din", counts, dataset.features, config, options, 1, None, 1)
    return Costs(planned, Machine(memory=2**34, cores=1), measurements())


@pytest.mark.nightly
@pytest.mark.slow
def test_training_needs_what_was_predicted(tmp_path):
    found = output("-c", TRAIN, str(tmp_path))
    counts = Counts(
        users=found["users"], items=50, behaviors=found["behaviors"], samples=found["samples"], values={"category": 7},
    )  # fmt: skip
    planned = costs(counts, embedding_dim=DIM)
    stage = planned.train()
    assert 1 / 2 < found["peak"] / stage.memory < 2
    assert 1 / 10 < found["seconds"] / stage.seconds < 10
    assert found["checkpoint"] == pytest.approx(planned.size.weight_bytes, rel=0.2, abs=20_000)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_data_path_needs_what_was_predicted(tmp_path):
    size = 200_000
    script, work = str(PROJECT / "benchmarks/cost_model.py"), str(tmp_path)
    generate = f"from pathlib import Path; import cost_model; cost_model.generate_files(Path({work!r}) / 'data_path_{size}', {size}); print('{{}}')"  # fmt: skip
    output("-c", generate)
    ingest, samples = (
        output(script, "--measure", f"{step}:{size}", "--work", work) for step in ("ingest_memory", "numpy")
    )
    counts = Counts(
        users=size // 20, items=4000, behaviors=ingest["behaviors"], samples=samples["samples"], values={"category": 499}
    )  # fmt: skip
    planned = costs(counts)
    for found, stage in ((ingest, planned.ingest("memory")), (samples, planned.samples("numpy"))):
        assert 1 / 2 < found["peak_rss_mb"] * 2**20 / stage.memory < 2
        assert 1 / 10 < found["seconds"] / stage.seconds < 10
        assert 1 / 2 < found["disk_mb"] * 2**20 / stage.disk < 2
