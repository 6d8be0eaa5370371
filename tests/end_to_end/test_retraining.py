"""Nights with real processes: what a scheduler sees, whatever goes wrong."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from support.days import FEATURES, day_name, day_tables, write_days, write_tables
from support.project import PROJECT, environment, kedro, run

from deep_interest.serving.registry import Registry

KILLS = int(os.environ.get("DEEP_INTEREST_KILLS", "2"))
RETRAIN = "--pipelines=retrain.shop.base"
FILES = ("behaviors", "items", "users", "impressions")
BLOCK = {
    "title": "Shop", "protocol": {"name": "by_day"}, "features": FEATURES,
    "source": {name: {"files": f"{name}.parquet"} for name in FILES},
}  # fmt: skip
QUICK = {"batch_size": 32, "learning_rate": 0.02}
RETRAINING = {
    "replay_days": 0,
    "gate": {"minimum_users": 10, "calibration": [0.3, 3.0], "logloss_rise": 1.0},
    "training": QUICK | {"epochs": 4},
    "warm_training": QUICK | {"epochs": 2},
}


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A project after its first night: three days, a first champion; tests work on copies."""
    folder = tmp_path_factory.mktemp("nights")
    project = folder / "project"
    (project / "src").mkdir(parents=True)  # empty: the code is this tree's, with its compiled loops
    for name in ("pyproject.toml", ".telemetry", "README.md"):
        shutil.copy(PROJECT / name, project / name)
    shutil.copytree(PROJECT / "conf", project / "conf")
    (project / "conf/smoke/parameters_shop.yml").write_text(
        yaml.safe_dump({"datasets": {"shop": BLOCK}, "retraining": RETRAINING})
    )
    write_days(folder / "raw/shop/days", range(3))
    done = night(folder)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def shop(nights, tmp_path):
    """A copy of it."""
    for name in ("project", "raw"):
        shutil.copytree(nights / name, tmp_path / name)
    return tmp_path


def night(shop, *arguments):
    return run(shop / "project", RETRAIN, *arguments, raw=shop / "raw")


def start(shop, *arguments):
    return subprocess.Popen(
        kedro(RETRAIN, *arguments), cwd=shop / "project", env=environment(shop / "raw"), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def registry(shop):
    return Registry(shop / "project/data/smoke/06_models/shop/base/registry")


def summary(shop):
    return json.loads(
        (shop / "project/data/smoke/08_reporting/shop/base/retraining/summary.json").read_text()
    )


def contents(shop):
    """Every file of the registry by its hash; the lock aside."""
    folder = registry(shop).folder
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def arrive(shop, number, **options):
    return write_tables(shop / "raw/shop/days" / day_name(number), day_tables(number, **options))


def shuffle_labels(shop, numbers):
    for number in numbers:
        file = shop / "raw/shop/days" / day_name(number) / "impressions.parquet"
        table = pd.read_parquet(file)
        table.assign(label=table["label"].sample(frac=1, random_state=0).to_numpy()).to_parquet(file)


def test_nights_take_each_day_once_and_a_night_without_one_says_so(shop):
    for number in (3, 4):
        arrive(shop, number)
        done = night(shop, "--params=retraining.gate.minimum_gain=-1")
        assert done.returncode == 0, done.stdout
        told = summary(shop)
        assert told["days"]["new"] == [day_name(number)]
        assert told["days"]["trained_on"] == [day_name(number - 1)]
        assert told["strategy"] == "warm_start"
        assert registry(shop).champion().id == told["version"]
    assert list(registry(shop).state().days) == [day_name(number) for number in range(5)]
    before = contents(shop)
    done = night(shop)
    assert done.returncode == 10
    assert "nothing new: no new day: the newest is 2024-03-05" in done.stdout
    assert contents(shop) == before


def test_a_killed_run_leaves_a_champion_and_the_next_ends_as_if_there_had_been_no_kill(shop, tmp_path):
    """SIGKILL at moments drawn over the run's length; ``make test-kills`` does it at 20 of them."""
    arrive(shop, 3)
    options = "--params=retraining.gate.minimum_gain=-1,training.checkpoint_seconds=0"
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(
        shop / "project",
        undisturbed / "project",
    )
    shutil.copytree(shop / "raw", undisturbed / "raw")
    begin = time.monotonic()
    assert night(undisturbed, options).returncode == 0
    length = time.monotonic() - begin
    first = registry(shop).champion().id
    draw = random.Random(KILLS)
    for _ in range(KILLS):
        process = start(shop, options)
        time.sleep(draw.uniform(0.4, 1.0) * length)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert registry(shop).champion().id in (first, registry(undisturbed).champion().id)
        registry(shop).champion().model()
    assert night(shop, options).returncode in (0, 10)
    assert contents(shop) == contents(undisturbed)
    assert not list(registry(shop).folder.glob(".*.part"))


def test_of_two_runs_at_once_the_second_ends_without_a_change(shop):
    arrive(shop, 3)
    options = "--params=retraining.gate.minimum_gain=-1"
    runs = [start(shop, options) for _ in range(2)]
    ended = [(process.communicate(timeout=200)[0], process.returncode) for process in runs]
    codes = sorted(code for _, code in ended)
    assert codes in ([0, 13], [0, 10]), ended  # 10: the second began when the first had ended
    if codes == [0, 13]:
        assert any("busy: " in out and "another run is at work" in out for out, _ in ended)
    assert list(registry(shop).state().days) == [day_name(number) for number in range(4)]
    assert len(registry(shop).names()) == 2


def test_a_bad_day_stops_the_run_stays_unconfirmed_and_is_taken_when_it_is_mended(shop):
    tables = day_tables(3)
    shown = tables["impressions"]
    write_tables(shop / "raw/shop/days" / day_name(3), tables | {"impressions": shown.assign(label=1)})
    before = contents(shop)
    done = night(shop)
    assert done.returncode == 12, done.stdout
    assert "2024-03-04: ctr 1.0000, expected" in done.stdout
    told = summary(shop)
    assert (told["outcome"], told["exit_code"]) == ("bad_data", 12)
    assert "2024-03-04" in told["message"]
    assert contents(shop) == before
    arrive(shop, 3)
    assert night(shop).returncode in (0, 11)
    assert day_name(3) in registry(shop).state().days


def test_a_challenger_of_shuffled_labels_is_refused_and_kept_for_whoever_wants_to_see_it(shop):
    arrive(shop, 3)
    shuffle_labels(shop, range(3))
    champion = registry(shop).champion().id
    done = night(shop, "--params=retraining.strategy=full_window")
    assert done.returncode == 11, done.stdout
    assert registry(shop).champion().id == champion
    assert day_name(3) in registry(shop).state().days
    refused = [name for name in registry(shop).names() if name != champion]
    assert registry(shop).load(refused[0]).manifest["verdict"]["promoted"] is False
    page = (shop / "project/data/smoke/08_reporting/shop/base/retraining/summary.md").read_text()
    assert "| GAUC gain, lower end |" in page


def test_a_better_challenger_is_promoted_and_can_be_rolled_back_and_a_damaged_champion_serves_nobody(shop):
    shutil.rmtree(shop / "project/data")
    shuffle_labels(shop, range(2))
    assert night(shop).returncode == 0  # nobody serves yet, so the first that is calibrated does
    first = registry(shop).champion().id
    write_days(shop / "raw/shop/days", range(4))
    done = night(shop, "--params=retraining.strategy=full_window")
    assert done.returncode == 0, done.stdout
    better = registry(shop).champion().id
    assert better != first
    command = ["deep_interest.command", "registry"]

    def registry_command(*arguments):
        import sys

        return subprocess.run(
            [sys.executable, "-m", *command, *arguments, "--env=smoke"], cwd=shop / "project", text=True, check=False,
            env=environment(shop / "raw"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    scored = run(
        shop / "project", "--pipelines=score.shop.base", "--params=retraining.scoring.context.placement=1", raw=shop / "raw"
    )  # fmt: skip
    assert scored.returncode == 0, scored.stdout
    file = shop / "project/data/smoke/07_model_output/shop/base/scores.parquet"
    assert pq.read_schema(file).metadata[b"model_version"].decode() == better
    assert set(pd.read_parquet(file)["model_version"]) == {better}
    weights = registry(shop).folder / better / "weights.pt"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    scored = run(shop / "project", "--pipelines=score.shop.base", raw=shop / "raw")
    assert scored.returncode == 1
    assert "weights.pt not as its checksum says" in scored.stdout
    listed = registry_command("list", "shop.base").stdout
    assert f"{better}  champion  DAMAGED" in listed
    assert f"{first}  previous" in listed
    done = registry_command("rollback", "shop.base")
    assert done.returncode == 0, done.stdout
    assert registry(shop).champion().id == first
    assert registry_command("promote", "shop.base", better).returncode == 1


def test_the_summary_is_posted_and_a_dead_webhook_does_not_matter(shop):
    posted = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        done = night(shop, f"--params=retraining.webhook={url}")
        assert done.returncode == 10, done.stdout
        assert [told["outcome"] for told in posted] == ["nothing_new"]
    finally:
        server.shutdown()
        server.server_close()
    done = night(shop, f"--params=retraining.webhook={url}")
    assert done.returncode == 10
    assert "the summary could not be posted" in done.stdout
