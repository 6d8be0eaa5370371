"""Nights with real processes: what a scheduler sees, whatever goes wrong."""

import hashlib
import json
import os
import random
import re
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from mlflow import MlflowClient
from support.days import FEATURES, day_name, day_tables, write_days, write_tables
from support.forked import Forked
from support.project import PROJECT, environment, run

from deep_interest.io.locks import ResourceLock, lock_path
from deep_interest.serving.registry import Registry

KILLS = int(os.environ.get("DEEP_INTEREST_KILLS", "2"))
RETRAIN = "--pipelines=retrain.shop.base"
OPEN_GATE = "--params=retraining.gate.minimum_gain=-1"
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
    """A project after its first night: three days, a first champion; tests work on copies.

    Clicks depend on the category alone, so no model can beat the items' popularity: the first version is promoted by hand.
    """
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
    done = run(folder / "project", RETRAIN, raw=folder / "raw")
    assert done.returncode == 11, done.stdout
    assert registry(folder).champion() is None
    promote_only_version(folder)
    return folder


@pytest.fixture(scope="module")
def fourth_night(nights, tmp_path_factory):
    """A copy after one more night that nothing disturbs, and the seconds that the night took."""
    folder = tmp_path_factory.mktemp("undisturbed")
    copy(nights, folder)
    arrive(folder, 3)
    begin = time.monotonic()
    done = night(folder, OPEN_GATE)
    seconds = time.monotonic() - begin
    assert done.returncode == 0, done.stdout
    return folder, seconds


@pytest.fixture
def shop(nights, tmp_path):
    """A copy of it."""
    copy(nights, tmp_path)
    return tmp_path


def copy(nights, folder):
    for name in ("project", "raw"):
        shutil.copytree(nights / name, folder / name)


def start(shop, *arguments, **limits):
    """A night as a process; see `Forked`."""
    return command(shop, "kedro", "run", "--env=smoke", RETRAIN, *arguments, **limits)


def night(shop, *arguments, **limits):
    """A night to its end."""
    return start(shop, *arguments, **limits).wait()


def command(shop, *arguments, **limits):
    return Forked(list(arguments), cwd=shop / "project", env=environment(shop / "raw"), **limits)


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
    """Every file of the registry's versions and its state by their hashes; not the lock nor what a kill has left unfinished."""
    folder = registry(shop).folder
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".")
    }


def unfinished(shop):
    return [path.name for path in (shop / "project/data").rglob(".*.part")]


def arrive(shop, number, **options):
    return write_tables(shop / "raw/shop/days" / day_name(number), day_tables(number, **options))


def shuffle_labels(shop, numbers):
    for number in numbers:
        file = shop / "raw/shop/days" / day_name(number) / "impressions.parquet"
        table = pd.read_parquet(file)
        table.assign(label=table["label"].sample(frac=1, random_state=0).to_numpy()).to_parquet(file)


def test_nights_take_each_day_once_a_late_one_too_and_a_night_without_one_says_so(shop):
    mlflow = f"sqlite:///{shop}/mlflow.db"
    trained_on = {3: [2], 4: [3], 6: [4], 5: [5], 7: [6]}  # of two days the later one judges; 5 is late
    for number, expected in trained_on.items():
        arrive(shop, number)
        done = night(shop, OPEN_GATE + (f",retraining.mlflow_uri={mlflow}" if number == 7 else ""))
        assert done.returncode == 0, done.stdout
        told = summary(shop)
        assert told["days"]["new"] == [day_name(number)]
        assert told["days"]["late"] == ([day_name(5)] if number == 5 else [])
        assert told["days"]["trained_on"] == [day_name(one) for one in expected]
        assert told["strategy"] == "warm_start"
        assert registry(shop).champion().id == told["version"]
    assert sorted(registry(shop).state().days) == [day_name(number) for number in range(8)]
    assert registry(shop).champion().manifest["days"]["trained"] == [day_name(number) for number in range(7)]
    told = MlflowClient(tracking_uri=mlflow).get_model_version_by_alias("shop.base", "champion")
    assert told.tags["version"] == registry(shop).champion().id
    before = contents(shop)
    done = night(shop)
    assert done.returncode == 10
    assert "nothing new: no new day: the newest is 2024-03-08" in done.stdout
    assert contents(shop) == before


def test_a_killed_run_leaves_a_champion_and_the_next_ends_as_if_there_had_been_no_kill(
    nights, shop, fourth_night
):
    """SIGKILL at moments drawn over the run's length; ``make test-kills`` does it at 20 of them."""
    arrive(shop, 3)
    undisturbed, seconds = fourth_night
    first, second = (registry(folder).champion().id for folder in (shop, undisturbed))
    draw = random.Random(KILLS)

    def end():
        done = night(shop, OPEN_GATE)
        assert done.returncode in (0, 10), done.stdout
        assert contents(shop) == contents(undisturbed)
        assert done.returncode == 10 or not unfinished(shop)

    for _ in range(KILLS):
        process = start(shop, f"{OPEN_GATE},training.checkpoint_seconds=0")
        moment = time.monotonic() + draw.uniform(0, 1) * seconds
        while time.monotonic() < moment:
            assert registry(shop).champion().id in (first, second)
            time.sleep(0.005)
        process.kill()
        registry(shop).champion().model()
        if registry(shop).state().champion == second:  # the kill came after the run's last step: begin anew
            end()
            shutil.rmtree(shop / "project")
            shutil.copytree(nights / "project", shop / "project")
    end()


@pytest.mark.parametrize(
    ("fitted", "largest_file", "file"),
    [(False, 6_000, "retraining.pt"), (True, 7_600, "registry/2024-03-03-")],
)
def test_a_disk_that_takes_no_more_leaves_the_champion_and_the_next_run_ends_as_if_it_had(
    shop, fourth_night, fitted, largest_file, file
):
    """The system itself refuses to write so much into a file: the running fit's state, or, the fit done, the version's optimiser."""
    undisturbed = fourth_night[0]
    arrive(shop, 3)
    if fitted:
        for name in ("retraining.pt", ".retraining.pt.sha256"):
            state = f"project/data/smoke/06_models/shop/base/{name}"
            shutil.copy(undisturbed / state, shop / state)
    before = contents(shop)
    done = night(shop, OPEN_GATE, largest_file=largest_file)
    assert done.returncode == 1
    assert re.search(rf"error: \S+/{file}\S*: the system allows no file so large", done.stdout)
    assert contents(shop) == before
    assert not unfinished(shop)
    registry(shop).champion().model()
    assert summary(shop)["outcome"] == "failed"
    done = night(shop, OPEN_GATE)
    assert done.returncode == 0, done.stdout
    assert contents(shop) == contents(undisturbed)


def test_of_two_runs_at_once_the_second_ends_without_a_change(shop):
    arrive(shop, 3)
    before = contents(shop)
    with registry(shop).locked():
        done = night(shop, OPEN_GATE)
    assert done.returncode == 13
    assert "busy: " in done.stdout and "another run is using this registry" in done.stdout
    assert contents(shop) == before
    ended = [process.wait() for process in [start(shop, OPEN_GATE) for _ in range(2)]]
    codes = sorted(done.returncode for done in ended)
    assert codes in ([0, 13], [0, 10]), ended  # 10: the second began when the first had ended
    assert list(registry(shop).state().days) == [day_name(number) for number in range(4)]
    assert len(registry(shop).names()) == 2


def test_a_run_is_busy_while_its_days_are_rewritten_and_shares_them_with_other_runs(shop):
    arrive(shop, 3)
    before = contents(shop)
    days = ResourceLock(lock_path(shop / "project/data/smoke", "shop.days"))
    days.acquire("kedro run --pipelines=simulate_days")
    done = night(shop, OPEN_GATE)
    assert done.returncode == 13
    assert "busy: shop.days is in use by `kedro run --pipelines=simulate_days`" in done.stdout
    assert contents(shop) == before
    days.release()
    days.acquire("kedro run --pipelines=retrain.shop.lr", shared=True)
    done = night(shop, OPEN_GATE)
    days.release()
    assert done.returncode == 0, done.stdout


def test_bad_days_stop_the_run_stay_unconfirmed_and_are_taken_when_they_are_mended(shop):
    days = shop / "raw/shop/days"
    for number in range(3, 8):
        arrive(shop, number)
    clicked = day_tables(3)["impressions"].assign(label=1)  # the usual rate is 0.18
    clicked.to_parquet(days / day_name(3) / "impressions.parquet", index=False)
    half = days / day_name(4) / "behaviors.parquet"
    half.write_bytes(half.read_bytes()[:2000])
    day_tables(5)["impressions"].head(0).to_parquet(days / day_name(5) / "impressions.parquet", index=False)
    shutil.rmtree(days / day_name(6))
    shutil.copytree(days / day_name(2), days / day_name(6))
    garbled = days / day_name(7) / "items.parquet"
    garbled.write_bytes(b"\0" * len(garbled.read_bytes()))
    (days / f".{day_name(8)}.part").mkdir()  # still being written
    before = contents(shop)
    done = night(shop)
    assert done.returncode == 12, done.stdout
    for finding in (
        "2024-03-04: ctr 1.0000, expected",
        "/2024-03-05/behaviors.parquet: not a valid Parquet file",
        "2024-03-06: impressions: no rows are left",
        "2024-03-07: the same files as 2024-03-03",
        "/2024-03-08/items.parquet: not a valid Parquet file",
    ):
        assert finding in done.stdout
    told = summary(shop)
    assert (told["outcome"], told["exit_code"]) == ("bad_data", 12)
    assert "2024-03-04" in told["message"]
    assert contents(shop) == before
    for number in range(3, 8):
        shutil.rmtree(days / day_name(number))
    arrive(shop, 3)
    assert night(shop).returncode in (0, 11)
    assert day_name(3) in registry(shop).state().days


def test_a_challenger_of_shuffled_labels_is_refused_and_kept_for_whoever_wants_to_see_it(shop):
    arrive(shop, 3)
    shuffle_labels(shop, range(3))
    champion, hashes = registry(shop).champion().id, registry(shop).state().days
    done = night(shop, "--params=retraining.strategy=full_window")
    assert done.returncode == 11, done.stdout
    taken = [day_name(number) for number in range(3)]
    assert f"the files of {', '.join(taken)} have changed since an earlier run took them" in done.stdout
    assert summary(shop)["days"]["changed"] == taken
    assert all(registry(shop).state().days[day]["hash"] != hashes[day]["hash"] for day in taken)
    assert registry(shop).champion().id == champion
    assert day_name(3) in registry(shop).state().days
    refused = [name for name in registry(shop).names() if name != champion]
    assert registry(shop).load(refused[0]).manifest["verdict"]["promoted"] is False
    page = (shop / "project/data/smoke/08_reporting/shop/base/retraining/summary.md").read_text()
    assert "| GAUC gain, lower end |" in page


def test_a_better_challenger_is_promoted_and_can_be_rolled_back_and_a_damaged_champion_serves_nobody(shop):
    shutil.rmtree(shop / "project/data")
    shuffle_labels(shop, range(2))
    refused = night(shop)  # calibrated, but without signal
    assert refused.returncode == 11, refused.stdout
    failed = {check["name"] for check in summary(shop)["checks"] if not check["passed"]}
    assert "GAUC gain over popularity, lower end" in failed
    promote_only_version(shop)
    first = registry(shop).champion().id
    write_days(shop / "raw/shop/days", range(4))
    done = night(shop, "--params=retraining.strategy=full_window")
    assert done.returncode == 0, done.stdout
    better = registry(shop).champion().id
    assert better != first

    def registry_command(*arguments):
        return command(shop, "deep-interest", "registry", *arguments, "--env=smoke").wait()

    def score(*arguments):
        return command(shop, "kedro", "run", "--env=smoke", "--pipelines=score.shop.base", *arguments).wait()

    scored = score("--params=retraining.scoring.context.placement=1")
    assert scored.returncode == 0, scored.stdout
    file = shop / "project/data/smoke/07_model_output/shop/base/scores.parquet"
    assert pq.read_schema(file).metadata[b"model_version"].decode() == better
    assert set(pd.read_parquet(file)["model_version"]) == {better}
    weights = registry(shop).folder / better / "weights.pt"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    scored = score()
    assert scored.returncode == 1
    assert "weights.pt does not match its checksum" in scored.stdout
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
