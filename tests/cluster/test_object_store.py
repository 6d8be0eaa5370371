"""Raw files and results of both engines on an S3-compatible server, which is a process of its own."""

import shutil

import pandas as pd
import pytest
import yaml
from support.engines import on_numpy, parameters, simulated_shop
from support.object_store import credentials, serve_bucket, store_at
from support.project import copy_project, run

from deep_interest.datasets import SamplesFolder
from deep_interest.io.checksums import SUMS

pytestmark = pytest.mark.cluster
CATALOG = """
own.raw_log:
  type: deep_interest.datasets.RawFile
  filepath: s3://shop/raw
  cache: {path: "${globals:data}/01_raw/cache"}
  credentials: object_store
own.samples:
  type: deep_interest.datasets.SamplesFolder
  filepath: s3://shop/made/own/samples
  cache: {path: "${globals:data}/05_model_input"}
  credentials: object_store
own.log:
  type: deep_interest.datasets.BehaviorLogFolder
  filepath: s3://shop/made/own/log
  cache: {path: "${globals:data}/05_model_input"}
  credentials: object_store
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve_bucket(tmp_path_factory.mktemp("moto")) as address:
        yield address


@pytest.mark.parametrize("environment", ["duckdb", "spark"])
def test_a_run_reads_raw_files_from_the_store_and_writes_the_samples_into_it(server, tmp_path, environment):
    tables, store = simulated_shop(impressions=True, users=60), store_at(server)
    for name in ("behaviors", "items", "users", "impressions"):
        getattr(tables, name).to_parquet(tmp_path / f"{name}.parquet", index=False)
        store.put_file(str(tmp_path / f"{name}.parquet"), f"shop/raw/own/{name}.parquet")
    project = copy_project(tmp_path / "project")
    conf = project / "conf" / environment
    (conf / "catalog_store.yml").write_text(CATALOG)
    (conf / "credentials.yml").write_text(yaml.safe_dump({"object_store": credentials(server)}))
    process = run(project, "--pipelines=samples.own", env=environment)
    assert process.returncode == 0, process.stdout
    expected = on_numpy(tables, parameters({"name": "by_day"}, {"profile": [], "context": []}))[2]

    address = {"filepath": "s3://shop/made/own/samples", "credentials": credentials(server)}
    made = SamplesFolder(**address, cache={"path": str(tmp_path / "elsewhere")}).load()
    order = list(expected)
    pd.testing.assert_frame_equal(
        made.sort_values(order, ignore_index=True), expected.sort_values(order, ignore_index=True)
    )
    assert {SUMS, "offsets.npy", "field.item_id.npy"} <= {
        path.rpartition("/")[2] for path in store.find("shop/made/own/log")
    }
    shutil.rmtree(project)
    store.rm("shop/made", recursive=True)
