"""Nightly retraining with days, registry and scores on an S3-compatible server, from two machines."""

import json

import pandas as pd
import pytest
import yaml
from support.days import FEATURES, day_name, write_days
from support.forked import Forked
from support.object_store import credentials, serve_bucket, store_at
from support.project import copy_project, environment

from deep_interest.serving.registry import RegistryState

DAYS = "shop/raw/shop/days"
REGISTRY = "shop/registry/shop/base"
CATALOG = """
shop.days:
  type: deep_interest.datasets.RawFile
  filepath: s3://shop/raw/shop/days
  cache: {path: "${globals:data}/01_raw/cache"}
  credentials: object_store
"{dataset}.{model}.registry":
  type: deep_interest.datasets.RegistryFolder
  filepath: s3://shop/registry/{dataset}/{model}
  cache: {path: "${globals:data}/06_models/registries"}
  credentials: object_store
"{dataset}.{model}.scores":
  type: deep_interest.datasets.ScoresFile
  filepath: s3://shop/scores/{dataset}/{model}.parquet
  credentials: object_store
  metadata: {pipeline: "score.{dataset}.{model}"}
"""
QUICK = {"batch_size": 32, "learning_rate": 0.02}
PARAMETERS = {
    "datasets": {
        "shop": {
            "title": "Shop", "protocol": {"name": "by_day"}, "features": FEATURES, "scoring": {"context": {"placement": 1}},
            "source": {name: {"files": f"{name}.parquet"} for name in ("behaviors", "items", "users", "impressions")},
        }
    },
    "retraining": {
        "replay_days": 0, "training": QUICK | {"epochs": 2}, "warm_training": QUICK | {"epochs": 1},
        "gate": {"minimum_users": 10, "calibration": [0.1, 10.0], "logloss_rise": 10.0, "minimum_gain": -1},
    },
}  # fmt: skip


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    with serve_bucket(folder) as address:
        yield address


def machine(folder, address):
    """Return a project without data that uses the server."""
    project = copy_project(folder)
    (project / "conf/smoke/catalog.yml").write_text(CATALOG)
    (project / "conf/smoke/credentials.yml").write_text(
        yaml.safe_dump({"object_store": credentials(address)})
    )
    (project / "conf/smoke/parameters_shop.yml").write_text(yaml.safe_dump(PARAMETERS))
    return project


def call(project, *arguments, code=0):
    done = Forked([*arguments, "--env=smoke"], cwd=project, env=environment()).wait()
    assert done.returncode == code, done.stdout
    return done.stdout


def champion(store):
    return RegistryState.model_validate_json(store.cat(f"{REGISTRY}/champion.json")).champion


@pytest.mark.nightly
def test_versions_are_promoted_rolled_back_and_scored_on_two_machines(tmp_path, server):
    store = store_at(server)
    first, second = (machine(tmp_path / name, server) for name in ("a", "b"))

    def deliver(days):
        write_days(tmp_path / "delivery", days)
        store.put(f"{tmp_path}/delivery/", f"{DAYS}/", recursive=True)

    deliver(range(3))
    refused = call(
        first, "kedro", "run", "--pipelines=retrain.shop.base", code=11
    )  # no better than popularity
    (v1,) = (path.rpartition("/")[2] for path in store.glob(f"{REGISTRY}/{day_name(1)}-*"))
    assert f"shop.base: {v1} refused" in refused
    assert champion(store) is None
    call(second, "deep-interest", "registry", "promote", "shop.base", v1)
    assert champion(store) == v1
    assert call(first, "kedro", "run", "--pipelines=retrain.shop.base", code=10).count("nothing new") == 1

    deliver(range(3, 4))
    call(
        second, "kedro", "run", "--pipelines=retrain.shop.base"
    )  # continues the version of the other machine
    v2 = champion(store)
    assert v2.startswith(day_name(2))
    manifest = json.loads(store.cat(f"{REGISTRY}/{v2}/manifest.json"))
    assert manifest["strategy"] == "warm_start"
    assert v1 in (listed := call(first, "deep-interest", "registry", "list", "shop.base")) and v2 in listed

    call(second, "kedro", "run", "--pipelines=score.shop.base")
    with store.open("shop/scores/shop/base.parquet") as file:
        assert set(pd.read_parquet(file)["model_version"]) == {v2}
    call(first, "deep-interest", "registry", "rollback", "shop.base")
    assert champion(store) == v1
    call(second, "kedro", "run", "--pipelines=score.shop.base")
    with store_at(server).open("shop/scores/shop/base.parquet") as file:
        assert set(pd.read_parquet(file)["model_version"]) == {v1}
    assert not list(tmp_path.rglob("s3:*"))
