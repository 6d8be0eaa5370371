"""Nightly retraining, as separate processes: exit codes, results and failures."""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from support.days import FEATURES, day_name, day_tables, write_days, write_tables
from support.forked import Forked, run
from support.project import PROJECT, environment

import deep_interest
from deep_interest.export.artifact import weights_checksum
from deep_interest.io.locks import ResourceLock, lock_path
from deep_interest.serving.registry import Registry

KILLS = int(os.environ.get("DEEP_INTEREST_KILLS", "2"))
RETRAIN = "--pipelines=retrain.shop.base"
OPEN_GATE = "--params=retraining.gate.minimum_gain=-1"
WITH_RULES = f"{OPEN_GATE},retraining.rows.item_id.min_count=70,retraining.rows.item_id.max_age_days=1"
FILES = ("behaviors", "items", "users", "impressions")
BLOCK = {
    "title": "Shop", "protocol": {"name": "by_day"}, "features": FEATURES,
    "source": {name: {"files": f"{name}.parquet"} for name in FILES}, "scoring": {"context": {"placement": 1}},
}  # fmt: skip
QUICK = {"batch_size": 32, "learning_rate": 0.02}
RETRAINING = {
    "replay_days": 0,
    "gate": {"minimum_users": 10, "calibration": [0.3, 3.0], "logloss_rise": 1.0},
    "training": QUICK | {"epochs": 4},
    "warm_training": QUICK | {"epochs": 2},
}


@pytest.fixture(scope="module")
def project_after_first_run(tmp_path_factory):
    """Project after its first retraining run: three days and a champion; tests work on copies.

    Clicks depend only on the category, so no model can beat item popularity: the first version is promoted by hand.
    """
    folder = tmp_path_factory.mktemp("first_run")
    project = folder / "project"
    (project / "src").mkdir(
        parents=True
    )  # empty: the code is that of this checkout, with its compiled kernels
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(PROJECT / name, project / name)
    shutil.copytree(PROJECT / "conf", project / "conf")
    (project / "conf/smoke/parameters_shop.yml").write_text(
        yaml.safe_dump({"datasets": {"shop": BLOCK}, "retraining": RETRAINING})
    )
    write_days(folder / "raw/shop/days", range(3))
    done = run(folder / "project", RETRAIN, raw=folder / "raw")
    assert done.returncode == 11, done.stdout
    assert registry(folder).champion() is None
    promote_only_version(folder)
    return folder


@pytest.fixture(scope="module")
def fourth_day(project_after_first_run, tmp_path_factory):
    """Copy after one more uninterrupted run, in which not every item has a row, and the duration of that run in seconds."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    copy(project_after_first_run, folder)
    write_day(folder, 3)
    start_time = time.monotonic()
    done = retrain(folder, WITH_RULES)
    seconds = time.monotonic() - start_time
    assert done.returncode == 0, done.stdout
    of_items = summary(folder)["rows"]["item_id"]
    assert of_items["admitted"] + of_items["waiting"] == 2  # new on the third day, the newest day of training
    return folder, seconds


@pytest.fixture
def shop(project_after_first_run, tmp_path):
    """Copy of the project after its first run."""
    copy(project_after_first_run, tmp_path)
    return tmp_path


def copy(project_after_first_run, folder):
    for name in ("project", "raw"):
        shutil.copytree(project_after_first_run / name, folder / name)


def start(shop, *arguments, **limits):
    """Start a retraining run as a process; see `Forked`."""
    return command(shop, "kedro", "run", "--env=smoke", RETRAIN, *arguments, **limits)


def retrain(shop, *arguments, **limits):
    """Run retraining to its end."""
    return start(shop, *arguments, **limits).wait()


def command(shop, *arguments, **limits):
    return Forked(list(arguments), cwd=shop / "project", env=environment(shop / "raw"), **limits)


def nightly(shop):
    """Run ``deploy/nightly.sh`` as installed: next to ``.venv``."""
    project = shop / "project"
    shutil.copytree(PROJECT / "deploy", project / "deploy")
    (project / ".venv").symlink_to(sys.prefix)
    return subprocess.run(
        ["deploy/nightly.sh", "shop.base"], cwd=project, env=environment(shop / "raw") | {"KEDRO_ENV": "smoke"}, text=True,
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
    )  # fmt: skip


def promote_only_version(shop):
    (version,) = registry(shop).names()
    done = command(shop, "deep-interest", "registry", "promote", "shop.base", version, "--env=smoke").wait()
    assert done.returncode == 0, done.stdout
    assert registry(shop).champion().id == version


def registry(shop):
    return Registry(shop / "project/data/smoke/06_models/shop/base/registry")


def summary(shop):
    return json.loads(
        (shop / "project/data/smoke/08_reporting/shop/base/retraining/summary.json").read_text()
    )


def contents(shop):
    """Return the hash of every file of the registry, except the lock and unfinished files of a killed run."""
    folder = registry(shop).folder
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".")
    }


def unfinished_files(shop):
    return [path.name for path in (shop / "project/data").rglob(".*.part")]


def write_day(shop, index, **options):
    return write_tables(shop / "raw/shop/days" / day_name(index), day_tables(index, **options))


def shuffle_labels(shop, indices):
    for index in indices:
        file = shop / "raw/shop/days" / day_name(index) / "impressions.parquet"
        table = pd.read_parquet(file)
        table.assign(label=table["label"].sample(frac=1, random_state=0).to_numpy()).to_parquet(file)


def test_runs_train_on_each_day_once_including_late_days(shop):
    mlflow = f"sqlite:///{shop}/mlflow.db"
    trained_on = {3: [2], 4: [3], 6: [4], 5: [5], 7: [6]}  # the later of two days is held out; day 5 is late
    for index, expected in trained_on.items():
        write_day(shop, index)
        done = retrain(shop, OPEN_GATE + (f",retraining.mlflow_uri={mlflow}" if index == 7 else ""))
        assert done.returncode == 0, done.stdout
        run_summary = summary(shop)
        assert run_summary["days"]["new"] == [day_name(index)]
        assert run_summary["days"]["late"] == ([day_name(5)] if index == 5 else [])
        assert run_summary["days"]["trained_on"] == [day_name(day) for day in expected]
        assert run_summary["strategy"] == "warm_start"
        assert registry(shop).champion().id == run_summary["version"]
    assert sorted(registry(shop).state().days) == [day_name(index) for index in range(8)]
    assert registry(shop).champion().manifest["days"]["trained"] == [day_name(index) for index in range(7)]
    from mlflow import MlflowClient

    alias = MlflowClient(tracking_uri=mlflow).get_model_version_by_alias("shop.base", "champion")
    assert alias.tags["version"] == registry(shop).champion().id
    before = contents(shop)
    done = retrain(shop)
    assert done.returncode == 10
    assert "nothing new: no new day: the newest is 2024-03-08" in done.stdout
    assert contents(shop) == before


def test_a_killed_run_keeps_the_champion_and_the_next_completes(project_after_first_run, shop, fourth_day):
    """SIGKILL at random times during the run; ``make test-kills`` does it 20 times."""
    write_day(shop, 3)
    uninterrupted, seconds = fourth_day
    first, second = (registry(folder).champion().id for folder in (shop, uninterrupted))
    rng = random.Random(KILLS)

    def complete():
        done = retrain(shop, WITH_RULES)
        assert done.returncode in (0, 10), done.stdout
        assert contents(shop) == contents(uninterrupted)
        assert done.returncode == 10 or not unfinished_files(shop)

    for _ in range(KILLS):
        process = start(shop, f"{WITH_RULES},training.checkpoint_seconds=0")
        kill_time = time.monotonic() + rng.uniform(0, 1) * seconds
        while time.monotonic() < kill_time:
            assert registry(shop).champion().id in (first, second)
            time.sleep(0.005)
        process.kill()
        registry(shop).champion().model()
        if registry(shop).state().champion == second:  # killed after the last step of the run: start over
            complete()
            shutil.rmtree(shop / "project")
            shutil.copytree(project_after_first_run / "project", shop / "project")
    complete()


@pytest.mark.parametrize(
    ("is_fitted", "max_file_size", "file"),
    [
        pytest.param(False, 6_000, "retraining.pt", marks=pytest.mark.nightly),
        (True, 7_600, "registry/2024-03-03-"),
    ],
)
def test_a_full_disk_keeps_the_champion_and_the_next_run_completes(
    shop, fourth_day, is_fitted, max_file_size, file
):
    """The file size limit of the process stops the state of the fit, or, after the fit, the optimiser of the version."""
    uninterrupted = fourth_day[0]
    write_day(shop, 3)
    if is_fitted:
        for name in ("retraining.pt", ".retraining.pt.sha256"):
            state = f"project/data/smoke/06_models/shop/base/{name}"
            shutil.copy(uninterrupted / state, shop / state)
    before = contents(shop)
    done = retrain(shop, WITH_RULES, max_file_size=max_file_size)
    assert done.returncode == 1
    assert re.search(rf"error: \S+/{file}\S*: the system allows no file so large", done.stdout)
    assert contents(shop) == before
    assert not unfinished_files(shop)
    registry(shop).champion().model()
    assert summary(shop)["outcome"] == "failed"
    done = retrain(shop, WITH_RULES)
    assert done.returncode == 0, done.stdout
    assert contents(shop) == contents(uninterrupted)


def test_the_second_of_two_concurrent_runs_changes_nothing(shop):
    write_day(shop, 3)
    before = contents(shop)
    with registry(shop).locked():
        done = retrain(shop, OPEN_GATE)
    assert done.returncode == 13
    assert "busy: " in done.stdout and "another run is using this registry" in done.stdout
    assert contents(shop) == before
    completed = [process.wait() for process in [start(shop, OPEN_GATE) for _ in range(2)]]
    codes = sorted(done.returncode for done in completed)
    assert codes in ([0, 13], [0, 10]), completed  # 10: the second started after the first had ended
    assert list(registry(shop).state().days) == [day_name(index) for index in range(4)]
    assert len(registry(shop).names()) == 2


def test_a_run_is_busy_while_its_days_are_being_written(shop):
    write_day(shop, 3)
    before = contents(shop)
    days = ResourceLock(lock_path(shop / "project/data/smoke", "shop.days"))
    days.acquire("kedro run --pipelines=simulate_days")
    done = retrain(shop, OPEN_GATE)
    assert done.returncode == 13
    assert "busy: shop.days is in use by `kedro run --pipelines=simulate_days`" in done.stdout
    assert contents(shop) == before
    days.release()
    days.acquire("kedro run --pipelines=retrain.shop.lr", shared=True)
    done = retrain(shop, OPEN_GATE)
    days.release()
    assert done.returncode == 0, done.stdout


def test_invalid_days_stop_the_run_and_are_used_once_corrected(shop):
    days = shop / "raw/shop/days"
    for index in range(3, 8):
        write_day(shop, index)
    all_clicked = day_tables(3)["impressions"].assign(label=1)  # the usual rate is 0.18
    all_clicked.to_parquet(days / day_name(3) / "impressions.parquet", index=False)
    truncated = days / day_name(4) / "behaviors.parquet"
    truncated.write_bytes(truncated.read_bytes()[:2000])
    day_tables(5)["impressions"].head(0).to_parquet(days / day_name(5) / "impressions.parquet", index=False)
    shutil.rmtree(days / day_name(6))
    shutil.copytree(days / day_name(2), days / day_name(6))
    overwritten = days / day_name(7) / "items.parquet"
    overwritten.write_bytes(b"\0" * len(overwritten.read_bytes()))
    (days / f".{day_name(8)}.part").mkdir()  # still being written
    before = contents(shop)
    done = retrain(shop)
    assert done.returncode == 12, done.stdout
    for finding in (
        "2024-03-04: ctr 1.0000, expected",
        "/2024-03-05/behaviors.parquet: not a valid Parquet file",
        "2024-03-06: impressions: no rows remain",
        "2024-03-07: the same files as 2024-03-03",
        "/2024-03-08/items.parquet: not a valid Parquet file",
    ):
        assert finding in done.stdout
    run_summary = summary(shop)
    assert (run_summary["outcome"], run_summary["exit_code"]) == ("bad_data", 12)
    assert "2024-03-04" in run_summary["message"]
    assert contents(shop) == before
    for index in range(3, 8):
        shutil.rmtree(days / day_name(index))
    write_day(shop, 3)
    assert retrain(shop).returncode in (0, 11)
    assert day_name(3) in registry(shop).state().days


def test_a_challenger_trained_on_shuffled_labels_is_kept_but_refused(shop):
    write_day(shop, 3)
    shuffle_labels(shop, range(3))
    champion, hashes = registry(shop).champion().id, registry(shop).state().days
    done = retrain(shop, "--params=retraining.strategy=full_window")
    assert done.returncode == 11, done.stdout
    used_days = [day_name(index) for index in range(3)]
    assert f"the files of {', '.join(used_days)} have changed since an earlier run used them" in done.stdout
    assert summary(shop)["days"]["changed"] == used_days
    assert all(registry(shop).state().days[day]["hash"] != hashes[day]["hash"] for day in used_days)
    assert registry(shop).champion().id == champion
    assert day_name(3) in registry(shop).state().days
    refused = [name for name in registry(shop).names() if name != champion]
    assert registry(shop).load(refused[0]).manifest["verdict"]["promoted"] is False
    page = (shop / "project/data/smoke/08_reporting/shop/base/retraining/summary.md").read_text()
    assert "| GAUC gain, lower end |" in page


def test_a_better_challenger_is_promoted_and_can_be_rolled_back(shop, monkeypatch):
    shutil.rmtree(shop / "project/data")
    shuffle_labels(shop, range(2))
    refused = retrain(shop)  # calibrated, but without signal
    assert refused.returncode == 11, refused.stdout
    failed = {check["name"] for check in summary(shop)["checks"] if not check["passed"]}
    assert "GAUC gain over popularity, lower end" in failed
    promote_only_version(shop)
    first = registry(shop).champion().id
    write_days(shop / "raw/shop/days", range(4))
    done = retrain(shop, "--params=retraining.strategy=full_window")
    assert done.returncode == 0, done.stdout
    better = registry(shop).champion().id
    assert better != first

    def registry_command(*arguments):
        return command(shop, "deep-interest", "registry", *arguments, "--env=smoke").wait()

    night = nightly(shop)
    assert night.returncode == 0, night.stdout
    assert "nothing new: no new day: the newest is 2024-03-04" in night.stdout
    file = shop / "project/data/smoke/07_model_output/shop/base/scores.parquet"
    assert pq.read_schema(file).metadata[b"model_version"].decode() == better
    scores = pd.read_parquet(file)
    assert set(scores["model_version"]) == {better}
    monkeypatch.setenv("DEEP_INTEREST_RAW", str(shop / "raw"))
    loaded = {
        version: deep_interest.load("shop.base", version=version, env="smoke", folder=shop / "project")
        for version in ("champion", first)
    }
    user, ranked = next(iter(scores.groupby("user")))
    ctr = {
        version: model.predict(user, ranked["item"], {"placement": 1}) for version, model in loaded.items()
    }
    assert ctr["champion"].tolist() == pytest.approx(ranked["ctr"].tolist(), abs=1e-6)
    assert ctr[first].tolist() != pytest.approx(ranked["ctr"].tolist(), abs=1e-3)
    exported = command(
        shop, "deep-interest", "export", "shop.base", "--version=champion", "--env=smoke"
    ).wait()
    assert exported.returncode == 0, exported.stdout
    schema = json.loads((shop / "project/data/smoke/06_models/shop/base/export_onnx/schema.json").read_text())
    assert (schema["version"], schema["seed"]) == (better, None)
    assert schema["weights_sha256"] == weights_checksum(loaded["champion"].model)
    weights = registry(shop).folder / better / "weights.pt"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    scored = command(shop, "kedro", "run", "--env=smoke", "--pipelines=score.shop.base").wait()
    assert scored.returncode == 1
    assert "weights.pt does not match its checksum" in scored.stdout
    listing = registry_command("list", "shop.base").stdout
    assert f"{better}  champion  DAMAGED" in listing
    assert f"{first}  previous" in listing
    done = registry_command("rollback", "shop.base")
    assert done.returncode == 0, done.stdout
    assert registry(shop).champion().id == first
    assert registry_command("promote", "shop.base", better).returncode == 1


def test_the_summary_is_posted_and_an_unreachable_webhook_is_ignored(shop):
    posted = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        done = retrain(shop, f"--params=retraining.webhook={url}")
        assert done.returncode == 10, done.stdout
        assert [message["outcome"] for message in posted] == ["nothing_new"]
    finally:
        server.shutdown()
        server.server_close()
    done = retrain(shop, f"--params=retraining.webhook={url}")
    assert done.returncode == 10
    assert "the summary could not be posted" in done.stdout
