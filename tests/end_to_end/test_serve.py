"""`deep-interest serve` as a user runs it: the scores of batch scoring, new champions and rollbacks, and mistakes."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import requests
import yaml
from support.days import FEATURES, write_days
from support.forked import Forked
from support.project import PROJECT, environment

from deep_interest.serving.registry import Registry

FILES = ("behaviors", "items", "users", "impressions")
BLOCK = {
    "title": "Shop", "protocol": {"name": "by_day"}, "features": FEATURES,
    "source": {name: {"files": f"{name}.parquet"} for name in FILES}, "scoring": {"context": {"placement": 1}},
}  # fmt: skip
RETRAINING = {
    "replay_days": 0,
    "training": {"batch_size": 32, "learning_rate": 0.02, "epochs": 2},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A project with three days and a champion, and its batch scores."""
    folder = tmp_path_factory.mktemp("serve")
    project = folder / "project"
    (project / "src").mkdir(parents=True)
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(PROJECT / name, project / name)
    shutil.copytree(PROJECT / "conf", project / "conf")
    block = yaml.safe_dump({"datasets": {"shop": BLOCK}, "retraining": RETRAINING})
    (project / "conf/smoke/parameters_shop.yml").write_text(block)
    write_days(folder / "raw/shop/days", range(3))
    retrain_and_promote(folder)
    done = call(folder, "kedro", "run", "--env=smoke", "--pipelines=score.shop.din")
    assert done.returncode == 0, done.stdout
    return folder


def retrain_and_promote(shop, *options):
    """Train a version on the days and make it the champion, whatever the gate says; return its id."""
    done = call(shop, "kedro", "run", "--env=smoke", "--pipelines=retrain.shop.din", *options)
    assert done.returncode in (0, 11), done.stdout
    version = Registry(shop / "project/data/smoke/06_models/shop/din/registry").names()[-1]
    done = call(shop, "deep-interest", "registry", "promote", "shop.din", version, "--env=smoke")
    assert done.returncode == 0, done.stdout
    return version


def call(shop, *arguments):
    return Forked(list(arguments), cwd=shop / "project", env=environment(shop / "raw")).wait()


class Served:
    """The command ``deep-interest serve`` as a process."""

    def __init__(self, shop, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [
            sys.executable,
            "-m",
            "deep_interest.commands.main",
            "serve",
            "shop.din",
            "--env=smoke",
            f"--port={self.port}",
        ]
        self.process = subprocess.Popen(
            [*command, *options], cwd=shop / "project", env=environment(shop / "raw"), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while not self.is_ready():
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def is_ready(self):
        try:
            return requests.get(self.url + "/v2/health/ready", timeout=5).status_code == 200
        except requests.ConnectionError:
            return False

    def rank(self, user, items):
        body = {"user": user, "candidates": [{"item": item} for item in items], "context": {"placement": 1}}
        response = requests.post(self.url + "/rank", json=body, timeout=10)
        assert response.status_code == 200, response.text
        return response.json()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def served(shop):
    started = []

    def start(*options):
        started.append(Served(shop, *options))
        return started[-1]

    yield start
    for of in started:
        if of.process.poll() is None:
            of.stop()


def test_scores_are_those_of_batch_scoring_and_versions_come_and_go(shop, served):
    scores = pd.read_parquet(shop / "project/data/smoke/07_model_output/shop/din/scores.parquet")
    service = served("--log-requests")
    first = scores["model_version"].iloc[0]
    for user, expected in list(scores.groupby("user", sort=False))[:20]:
        answer = service.rank(user, expected["item"].sample(frac=1, random_state=1).tolist())
        assert answer["version"] == first
        found = pd.DataFrame(answer["ranking"]).set_index("item")["ctr"]
        np.testing.assert_allclose(
            found[expected["item"]].to_numpy(), expected["ctr"].to_numpy(), rtol=0, atol=1e-6
        )
    write_days(shop / "raw/shop/days", range(3, 4))
    second = retrain_and_promote(shop, "--params=retraining.tables=int8,retraining.attention=bfloat16")
    assert wait_for_other_version(service, first) == second
    check_tables(shop, service, second)
    done = call(shop, "deep-interest", "registry", "rollback", "shop.din", "--env=smoke")
    assert done.returncode == 0, done.stdout
    assert wait_for_other_version(service, second) == first
    output = service.stop()
    assert service.process.returncode == 0
    assert f"{first} serves on http://127.0.0.1:{service.port}" in output
    assert "Traceback" not in output
    done = call(shop, "kedro", "run", "--env=smoke", "--pipelines=parity.shop.din")
    assert done.returncode == 0, done.stdout
    assert "requests with" in done.stdout
    parity = json.loads((shop / "project/data/smoke/08_reporting/shop/din/parity.json").read_text())
    assert sorted(parity["versions"]) == sorted([first, second])
    check_parity_by_the_gate(shop)


def check_parity_by_the_gate(shop):
    """Retrain on another day with a gate that asks for parity."""
    write_days(shop / "raw/shop/days", range(4, 5))
    gate = "--params=retraining.gate.parity=true,retraining.gate.parity_requests=20"
    done = call(shop, "kedro", "run", "--env=smoke", "--pipelines=retrain.shop.din", gate)
    assert done.returncode in (0, 11), done.stdout
    summary = json.loads(
        (shop / "project/data/smoke/08_reporting/shop/din/retraining/summary.json").read_text()
    )
    checks = {check["name"]: check for check in summary["checks"]}
    for name in ("champion: served minus batch scores", "challenger: served minus batch scores"):
        assert checks[name]["passed"]
        assert 0 <= checks[name]["found"] <= 1e-6
    assert checks["logged requests that the challenger can score"]["found"] == 20


def check_tables(shop, service, version):
    """The service, batch scoring, the registry and the report of retraining name the precision of a version."""
    assert service.rank("u1", ["sku-1"])["precision"] == {"tables": "int8", "attention": "bfloat16"}
    done = call(shop, "deep-interest", "registry", "list", "shop.din", "--env=smoke")
    (line,) = (line for line in done.stdout.splitlines() if version in line)
    assert ", int8 tables and bfloat16 attention (GAUC " in line
    folder = shop / "project/data/smoke/08_reporting/shop/din/retraining"
    assert "Precision: int8 tables and bfloat16 attention, tables of " in (folder / "summary.md").read_text()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["precision"]["megabytes"] < 0.6 * summary["precision"]["megabytes_float32"]
    assert summary["checks"][-1]["name"] == "GAUC loss of int8 tables and bfloat16 attention, upper end"
    done = call(shop, "kedro", "run", "--env=smoke", "--pipelines=score.shop.din")
    assert done.returncode == 0, done.stdout
    file = shop / "project/data/smoke/07_model_output/shop/din/scores.parquet"
    scores, metadata = pd.read_parquet(file), pq.read_schema(file).metadata
    assert [metadata[key] for key in (b"model_version", b"tables", b"attention")] == [
        version.encode(),
        b"int8",
        b"bfloat16",
    ]
    for user, expected in list(scores.groupby("user", sort=False))[:5]:
        ranking = service.rank(user, expected["item"].tolist())["ranking"]
        found = pd.DataFrame(ranking).set_index("item")["ctr"]
        assert found[expected["item"]].to_numpy() == pytest.approx(expected["ctr"].to_numpy(), abs=1e-6)


def wait_for_other_version(service, version):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = service.rank("u1", ["sku-1"])["version"]
        if found != version:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{version} goes on serving")


MISTAKES = {
    ("shop.din", "--host=0.0.0.0"): "--host: 0.0.0.0 can be reached from other machines; set a token",
    ("shop.din", "--split=abc"): "--split: found abc, expected VERSION=SHARE",
    ("shop.din", "--split=v1=1.5"): "--split: found v1=1.5, expected VERSION=SHARE",
    (
        "shop.din",
        "--shadow=v9",
    ): "--shadow: the scores of a shadow are only in the request log; add --log-requests",
    ("shop.din", "--shadow=v9", "--log-requests"): "there is no version v9; existing versions: 2024-03-",
    ("shop.din", "--token-file=nothing"): "--token-file: nothing cannot be read",
    (
        "shop.din",
        "--events=sqlite",
    ): "--events: it does not begin with redis:// or rediss://; expected an address of the form redis://HOST:PORT/DATABASE",
    (
        "shop.din",
        "--events=redis://127.0.0.1:1/0",
    ): "redis://127.0.0.1:1/0: the Redis server cannot be reached",
    ("shop.base",): "no version serves yet; run `kedro run --pipelines=retrain.shop.base",
    ("shop.popularity",): "expected DATASET.MODEL, such as shop.din",
    ("nothing.din",): "nothing is not a dataset",
    ("shop.din", "--port=99999"): "Invalid value for '--port'",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_one_message(shop, arguments):
    done = call(shop, "deep-interest", "serve", *arguments, "--env=smoke")
    assert done.returncode in (1, 2)
    assert MISTAKES[arguments] in done.stdout
    assert "Traceback" not in done.stdout


def test_an_unknown_precision_is_one_message(shop):
    done = call(
        shop, "kedro", "run", "--env=smoke", "--pipelines=retrain.shop.din", "--params=retraining.tables=int4"
    )
    assert done.returncode == 1
    assert done.stdout == (
        "error: --params: retraining.tables: found 'int4', expected 'float32', 'float16', 'bfloat16' or 'int8'; did you mean int8?\n"
    )
