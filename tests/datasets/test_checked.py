"""kedro-datasets with checks: atomic saves, versions, other file systems, and which entries of a catalog get them."""

import pickle

import pandas as pd
import pytest
from kedro.io import DataCatalog, DatasetError
from kedro_datasets.json import JSONDataset
from kedro_datasets.pandas import CSVDataset

from deep_interest.datasets import BehaviorLogFolder, CheckpointFile, JSONFiles, OptionalCSV
from deep_interest.datasets.checked import Checked, checked, with_checks

TABLE = pd.DataFrame({"model": ["base", "din"], "gauc": [0.7, 0.71]})
WRITTEN = {"pipeline": "report.shop"}


def catalog_of(entry, **versions):
    return DataCatalog.from_config(with_checks({"shop.results": entry}), **versions)


def test_entries_that_a_pipeline_writes_get_checks_and_others_stay_unchanged():
    own = {"type": "deep_interest.datasets.CheckpointFile", "filepath": "a.pt", "metadata": WRITTEN}
    plain = {"type": "pandas.CSVDataset", "filepath": "a.csv", "metadata": {"kedro-viz": {}}}
    catalog = with_checks({"own": own, "plain": plain, "table": {**plain, "metadata": WRITTEN}})
    assert (catalog["own"], catalog["plain"]) == (own, plain)
    assert catalog["table"]["type"] == "deep_interest.datasets.checked.pandas_CSVDataset"
    assert issubclass(checked(CSVDataset), CSVDataset)


def test_an_error_while_saving_keeps_the_old_file(tmp_path):
    dataset = checked(JSONDataset)(filepath=str(tmp_path / "a.json"))
    dataset.save({"rate": 0.1})
    with pytest.raises(DatasetError, match="not JSON serializable"):
        dataset.save({"rate": 0.2, "model": object()})
    assert dataset.load() == {"rate": 0.1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.json.sha256", "a.json"]


def test_versions_of_a_table_are_kept_listed_and_verified(tmp_path):
    entry = {
        "type": "pandas.CSVDataset", "filepath": str(tmp_path / "results.csv"), "versioned": True, "metadata": WRITTEN,
    }  # fmt: skip
    for version, table in (("2026-01-01", TABLE[:1]), ("2026-01-02", TABLE)):
        catalog_of(entry, save_version=version).save("shop.results", table)
    newest = catalog_of(entry)
    pd.testing.assert_frame_equal(newest.load("shop.results"), TABLE)
    pd.testing.assert_frame_equal(newest.load("shop.results", version="2026-01-01"), TABLE[:1])
    assert newest["shop.results"].list_versions(full_path=False) == ["2026-01-02", "2026-01-01"]
    (tmp_path / "results.csv/2026-01-02/results.csv").write_text("model,gauc\n")
    with pytest.raises(DatasetError, match=r"does not match its checksum.*--pipelines=report\.shop`"):
        catalog_of(entry).load("shop.results")


def test_a_table_in_another_file_system_is_loaded_saved_and_missed(memory):
    entry = {"type": "pandas.CSVDataset", "filepath": "memory:///bucket/results.csv", "metadata": WRITTEN}
    with pytest.raises(DatasetError, match=r"memory:///bucket/results\.csv does not exist; run `kedro run"):
        catalog_of(entry).load("shop.results")
    catalog_of(entry).save("shop.results", TABLE)
    assert memory.find("/bucket") == ["/bucket/results.csv"]
    pd.testing.assert_frame_equal(catalog_of(entry).load("shop.results"), TABLE)


def test_an_error_while_saving_uploads_nothing(memory):
    dataset = checked(JSONDataset)(filepath="memory:///bucket/a.json")
    with pytest.raises(DatasetError, match="not JSON serializable"):
        dataset.save({"rate": 0.1, "model": object()})
    assert memory.find("/bucket") == []


def test_a_checkpoint_and_json_files_may_be_in_another_file_system(memory):
    checkpoint = CheckpointFile(filepath="memory:///bucket/din/checkpoint.pt")
    checkpoint.save({"seeds": [1]})
    assert checkpoint.load() == {"seeds": [1]}
    for model in ("din", "dien"):
        checked(JSONDataset)(filepath=f"memory:///bucket/{model}/tuned.json").save({"rate": 0.1})
    assert list(JSONFiles(path="memory:///bucket", files={"tuned": "tune.shop"}).load()) == ["dien", "din"]


def test_a_log_in_an_object_store_is_refused_in_one_sentence():
    entry = {"type": "deep_interest.datasets.BehaviorLogFolder", "filepath": "s3://bucket/log"}
    with pytest.raises(
        DatasetError, match=r"s3://bucket/log: BehaviorLogFolder reads and writes local folders"
    ):
        catalog_of(entry).get("shop.results")
    with pytest.raises(DatasetError, match="can only be loaded"):
        JSONFiles(path="a", files={}).save({})
    assert not issubclass(BehaviorLogFolder, Checked)


def test_processes_can_exchange_datasets_with_checks(tmp_path):
    """The parallel runner sends the catalog to its workers."""
    dataset = checked(CSVDataset)(filepath=str(tmp_path / "a.csv"), metadata=WRITTEN)
    dataset.save(TABLE)
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(dataset)).load(), TABLE)


def test_kedro_viz_sees_the_kind_of_a_preview_and_none_before_the_first_run(tmp_path):
    import inspect

    dataset = checked(CSVDataset)(filepath=str(tmp_path / "a.csv"))
    assert str(inspect.signature(dataset.preview).return_annotation) == "TablePreview"
    assert dataset.preview(nrows=1) is None
    dataset.save(TABLE)
    assert dataset.preview(nrows=1)["data"] == [["base", 0.7]]


def test_an_optional_table_is_empty_without_its_file_and_verified_with_it(tmp_path):
    path = tmp_path / "history.csv"
    entry = OptionalCSV(filepath=str(path), metadata={"pipeline": "simulated"})
    assert entry.load().empty
    entry.save(pd.DataFrame({"run": ["r1"]}))
    assert entry.load()["run"].tolist() == ["r1"]
    path.write_text("run\nr2\n")
    with pytest.raises(
        DatasetError, match=r"history\.csv.*run `kedro run --pipelines=simulated` to write it again"
    ):
        entry.load()
