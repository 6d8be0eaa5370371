"""Every model trains and scores by the plain implementations alone, with the results of the compiled ones."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.ops import use_engine
from support.training import sample_set, small_data

from deep_interest.models.registry import MODELS, model_config
from deep_interest.ops.runtime.engine import set_engine
from deep_interest.training import runs
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters, TrainingOptions
from deep_interest.training.runs import Experiment, predict_experiment, settings_of, train_experiment

TESTS = Path(__file__).parents[1]
RECIPE = Recipe(
    training={"batch_size": 32, "epochs": 1, "l2": 1e-4, "gradient_norm": 5.0},
    model={"embedding_dim": 4, "hidden": (8, 4), "attention_hidden": (8, 4)},
)
KINDS = sorted({row.path: key for key, row in reversed(MODELS.items())}.values())  # a model of each class
PROGRAM = """
import gc, sys, tempfile
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

class KernelCalled(Exception):
    pass

def refuse(self, *arguments, **options):
    raise KernelCalled(self.py_func.__qualname__)

CPUDispatcher._compile_for_args = refuse  # every first call of a kernel comes here
from support.training import small_data, with_tags
from training.test_engine import experiment
from deep_interest.training.runs import predict_experiment, train_experiment

data = with_tags(small_data())
with tempfile.TemporaryDirectory() as folder:
    for key in sys.argv[1:]:
        chosen = experiment(folder, key)
        try:
            predictions = predict_experiment(train_experiment(chosen, data)[0], chosen.run, data)
            print(key, bool(predictions["seed_1"].between(0, 1).all()))
        except KernelCalled as error:
            print(key, "called", error)
dispatchers = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
print(len(dispatchers) > 50, sum(len(dispatcher.overloads) for dispatcher in dispatchers))
"""


@pytest.fixture(autouse=True)
def _default_engine_afterwards():
    yield
    set_engine(None)


def experiment(folder, model: str, *, options=None, **run) -> Experiment:
    """A small experiment with one seed."""
    parameters = RunParameters(**({"device": "cpu", "processes": 1, "workspace": str(folder)} | run))
    return Experiment("small", model, RowOptions(options or {}), RECIPE, (1,), parameters)


def output_with(engine: str, *models: str) -> list[str]:
    """What the program prints in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *models], text=True, capture_output=True, check=True, timeout=600,
        env={**os.environ, "DEEP_INTEREST_ENGINE": engine, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )  # fmt: skip
    return found.stdout.splitlines()


@pytest.mark.nightly
@pytest.mark.slow
def test_the_plain_engine_calls_no_kernel_in_any_model():
    *models, kernels = output_with("plain", *MODELS)
    assert models == [f"{key} True" for key in MODELS]
    assert kernels == "True 0"


@pytest.mark.slow
def test_the_check_notices_a_kernel():
    assert output_with("compiled", "lr")[0] == "lr called first_out_of_range"


@pytest.mark.slow
@pytest.mark.parametrize("model", [*KINDS, "din_mba_dice", "dien_infonce", "gru_augru"])
def test_both_engines_fit_the_same_model(tmp_path, model):
    data, found = small_data(), {}
    for engine in ("compiled", "plain"):
        chosen = experiment(tmp_path / engine, model, engine=engine)
        checkpoint, curves = train_experiment(chosen, data)
        scores = predict_experiment(checkpoint, chosen.run, data)["seed_1"].to_numpy()
        rank_of_ties = (
            ["validation_gauc"] if model == "user_only" else []
        )  # its scores of a user are equal up to rounding
        found[engine] = scores, curves.drop(columns=["seconds", *rank_of_ties]).to_numpy(float)
    for compiled, plain in zip(*found.values(), strict=True):
        np.testing.assert_allclose(compiled, plain, atol=1e-3)
    assert found["plain"][0].std() > 0


def test_a_fit_belongs_to_its_engine(tmp_path):
    def fingerprint(**run):
        train_experiment(experiment(tmp_path, "base", **run), small_data())
        return torch.load(tmp_path / "small/base/seed_1.pt", weights_only=True)["fingerprint"]

    compiled, plain, again = fingerprint(), fingerprint(engine="plain"), fingerprint(engine="compiled")
    assert compiled == again != plain


def test_the_fingerprint_of_a_compiled_fit_does_not_mention_the_engine(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(runs, "fingerprint", lambda *parts: found.append(parts) or "f")
    for engine in ("compiled", "plain"):
        runs.fit_seed(experiment(tmp_path, "base", engine=engine), small_data(), 5)
    compiled, plain = found
    assert compiled == (*plain[:5], *plain[6:])
    assert plain[5] == "plain"


@pytest.mark.parametrize(("variable", "parameter", "engine"), [
    ("plain", None, "plain"), ("plain", "compiled", "compiled"), ("compiled", "plain", "plain"),
])  # fmt: skip
def test_the_settings_of_a_model_name_the_engine(monkeypatch, variable, parameter, engine):
    monkeypatch.setenv("DEEP_INTEREST_ENGINE", variable)
    chosen = experiment("unused", "base", engine=parameter)
    settings = settings_of(chosen, recipe="ours", tuned={}, data="abc", tuned_on_other_data=False)
    assert settings["engine"] == engine


@pytest.mark.parametrize(("engine", "threads"), [("compiled", 1), ("plain", 2)])
def test_a_plain_step_uses_all_threads_of_torch(tmp_path, monkeypatch, engine, threads):
    samples, seen, before = sample_set(small_data()), [], torch.get_num_threads()
    with use_engine(engine):
        model = runs.build_model("base", model_config("base", {}, common=RECIPE.model), samples.store.schema)
        fit = Fit(
            label="test", model=model, train=samples, validation=samples, options=TrainingOptions(batch_size=32), seed=0,
            state_file=tmp_path / "state.pt", fingerprint="",
        )  # fmt: skip
        model.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
        torch.set_num_threads(2)
        try:
            fit.train_step(torch.arange(32))
        finally:
            torch.set_num_threads(before)
    assert seen == [threads]
