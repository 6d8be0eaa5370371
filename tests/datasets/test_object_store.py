"""The catalog on an S3-compatible server, which is a process of its own, with credentials by Kedro's convention."""

import shutil

import pandas as pd
import pytest
import yaml
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.io import DatasetError
from support.object_store import credentials, serve_bucket, store_at
from support.project import PROJECT
from support.versions import artifacts

pytestmark = pytest.mark.slow

TABLE = pd.DataFrame({"model": ["base", "din"], "gauc": [0.7, 0.71]})
CATALOG = """
"{dataset}.results":
  type: pandas.CSVDataset
  filepath: s3://shop/results/{dataset}/results.csv
  versioned: true
  credentials: object_store
  load_args: {encoding: utf-16}
  fs_args:
    s3_additional_kwargs: {ServerSideEncryption: AES256}
    open_args_save: {encoding: utf-16}
  metadata: {pipeline: "report.{dataset}"}
"{dataset}.{model}.registry":
  type: deep_interest.datasets.RegistryFolder
  filepath: s3://shop/registry/{dataset}/{model}
  cache: {path: "${globals:data}/06_models/registries"}
  credentials: object_store
simulated.days:
  type: deep_interest.datasets.RawFile
  filepath: s3://shop/raw/days
  cache: {path: "${globals:data}/01_raw/cache"}
  credentials: object_store
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve_bucket(tmp_path_factory.mktemp("moto")) as address:
        yield address


@pytest.fixture
def open_catalog(server, tmp_path):
    """Open the project's catalog with some entries on the server and credentials in ``conf/local``."""
    shutil.copytree(PROJECT / "conf", tmp_path / "conf")
    (tmp_path / "conf/local").mkdir(exist_ok=True)
    (tmp_path / "conf/local/credentials.yml").write_text(
        yaml.safe_dump({"object_store": credentials(server)})
    )
    (tmp_path / "conf/local/catalog.yml").write_text(CATALOG)

    def open_on(machine):
        (tmp_path / "conf/local/globals.yml").write_text(f"data: {tmp_path / machine}\n")
        bootstrap_project(PROJECT)
        with KedroSession.create(PROJECT, conf_source=str(tmp_path / "conf"), save_on_close=False) as session:
            return session.load_context().catalog

    return open_on


def test_results_raw_files_and_the_registry_are_on_the_server(open_catalog, server, tmp_path):
    store = store_at(server)
    for day in ("2026-01-01", "2026-01-02"):
        store.pipe(f"shop/raw/days/{day}/behaviors.parquet", day.encode())
    first = open_catalog("a")
    with pytest.raises(
        DatasetError, match=r"s3://shop/results/simulated/results\.csv does not exist; run `kedro run"
    ):
        first.load("simulated.results")
    first.save("simulated.results", TABLE)
    registry = first.load("simulated.din.registry")
    registry.add("v1", artifacts())
    registry.promote("v1")

    second = open_catalog("b")
    pd.testing.assert_frame_equal(second.load("simulated.results"), TABLE)
    second.save("simulated.results", TABLE[:1])
    assert second.load("simulated.din.registry").champion().id == "v1"
    days = second.load("simulated.days")
    assert days.is_relative_to(tmp_path / "b/01_raw/cache")
    assert (days / "2026-01-02/behaviors.parquet").read_text() == "2026-01-02"
    versions = store.glob("shop/results/simulated/results.csv/*/results.csv")
    texts = [store.cat(path).decode("utf-16") for path in sorted(versions)]
    assert [len(text.splitlines()) for text in texts] == [3, 2]
    for path in versions:
        head = store.call_s3("head_object", Bucket="shop", Key=path.removeprefix("shop/"))
        assert head["ServerSideEncryption"] == "AES256"
    assert not list(tmp_path.rglob("s3:*"))
