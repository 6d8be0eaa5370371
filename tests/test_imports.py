"""Importing the package changes nothing in the process: other code in it runs as before."""

import json
import os
import subprocess
import sys

import pytest

from deep_interest.models.registry import MODELS
from deep_interest.process import prepare_process

MEASURE = """
import ctypes, json, os, signal, sys, threading, warnings

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

def state():
    import numpy, torch
    return {
        "environment": dict(os.environ), "torch threads": torch.get_num_threads(), "torch default": str(torch.get_default_dtype()),
        "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
        "threads": threading.active_count(), "numpy": numpy.geterr(), "excepthook": sys.excepthook is sys.__excepthook__,
        "random": torch.get_rng_state().sum().item(),
    }
"""
EVERY_MODULE = (
    MEASURE
    + """
import importlib, pkgutil, torch

before = state()
import deep_interest
names = [module.name for module in pkgutil.walk_packages(deep_interest.__path__, "deep_interest.")]
for name in names:
    if not name.endswith("__main__") and "gru_triton" not in name:
        importlib.import_module(name)
after = state()
start = rss()
tensors = [torch.ones(25 << 18) for _ in range(16)]  # 25 MB each: below the C library's highest threshold for maps of their own
large = [torch.ones(100 << 18) for _ in range(3)]
most = rss()
del tensors, large
print(json.dumps({"before": before, "after": after, "modules": len(names), "start": start, "most": most, "end": rss()}))
"""
)


def measured(program, *arguments):
    found = subprocess.run(
        [sys.executable, "-c", program, *arguments], text=True, capture_output=True, check=True, timeout=300
    )
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.slow
def test_importing_every_module_changes_no_setting_of_the_process():
    found = measured(EVERY_MODULE)
    assert found["modules"] > 150
    assert found["after"] == found["before"]
    assert found["most"] > found["start"] + 600
    assert found["end"] < found["start"] + 100  # what is freed goes back to the system


PLAIN_GRU = (
    MEASURE
    + """
import torch
from torch import nn
if sys.argv[1] == "with us":
    import deep_interest.ops.runtime.jit, deep_interest.training.loop
torch.set_num_threads(1)
torch.manual_seed(0)
table, gru, query, out = nn.Embedding(1000, 64), nn.GRU(64, 64, batch_first=True, num_layers=2), nn.Linear(64, 64), nn.Linear(64, 1)
optimizer = torch.optim.Adam([parameter for part in (table, gru, query, out) for parameter in part.parameters()])
start = most = rss()
for length in (25, 79, 64, 28, 83, 93):
    vectors = table(torch.randint(1000, (1000, length)))
    states, _ = gru(vectors)
    weights = torch.softmax((query(states) * vectors).sum(2), 1)
    loss = out((weights.unsqueeze(2) * states).sum(1)).square().mean()
    optimizer.zero_grad()
    most = max(most, rss())
    loss.backward()
    optimizer.step()
    most = max(most, rss())
    assert most < 4000, "memory grows"
print(json.dumps({"most": most - start}))
"""
)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_plain_gru_in_a_process_with_the_package_needs_its_normal_memory():
    alone, together = (measured(PLAIN_GRU, where) for where in ("alone", "with us"))
    assert alone["most"] > 300
    assert together["most"] < 1.3 * alone["most"] + 20  # MB; a fifth more once, while other tests ran


@pytest.mark.slow
def test_settings_and_hooks_import_no_torch_so_that_commands_prepare_the_process_before():
    program = (
        "import sys, deep_interest.settings, deep_interest.commands.main; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.slow
def test_the_names_of_the_pipelines_are_known_without_their_nodes():
    program = (
        "import json, sys\n"
        "from deep_interest.pipeline_registry import register_pipelines\n"
        "assert 'abtest.simulated' in register_pipelines()\n"
        "slow = {'optuna', 'pandas', 'scipy', 'sqlalchemy', 'torch'}\n"
        "print(json.dumps([name for name in sys.modules if name in slow or name.startswith('deep_interest') and name.endswith('.nodes')]))"
    )
    assert measured(program) == []


@pytest.mark.slow
def test_the_options_of_all_models_are_validated_without_torch():
    program = (
        "import sys\n"
        "from deep_interest.models.registry import MODELS, model_config\n"
        "import deep_interest.training.parameters, deep_interest.tuning.parameters\n"
        "print([key for key in MODELS if (model_config(key, {}), 'torch' in sys.modules)[1]][:1])"
    )
    assert measured(program) == []  # otherwise the first model whose options import torch


def test_the_options_of_a_model_are_those_of_its_class():
    for key, spec in MODELS.items():
        assert spec.load().Config is spec.config(), key


@pytest.mark.parametrize(("before", "expected"), [(None, "1000"), ("30", "30")])
def test_a_prepared_process_keeps_what_the_user_has_set(monkeypatch, before, expected):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    if before is not None:
        monkeypatch.setenv("GOMP_SPINCOUNT", before)
    prepare_process()
    assert os.environ["GOMP_SPINCOUNT"] == expected
