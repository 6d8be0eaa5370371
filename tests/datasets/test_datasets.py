"""Datasets: round trips, previews, checksums and messages."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from kedro.io import DatasetError
from kedro_datasets.json import JSONDataset
from kedro_datasets.pandas import CSVDataset, ParquetDataset
from kedro_datasets.text import TextDataset

from deep_interest.datasets import (
    BehaviorLogFolder,
    ChartFile,
    CheckpointFile,
    DayFolders,
    FeatureTablesFolder,
    JSONFiles,
    ParquetFolder,
    RawFile,
    ScoresFile,
)
from deep_interest.datasets.checked import checked
from deep_interest.figures.chart import Chart, Line, Panel
from deep_interest.io.atomic import atomic_path
from deep_interest.io.checksums import damage_of
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.schema import FeatureSchema, Field
from deep_interest.serving.pairs import Scores

ParquetTable, CSVTable = checked(ParquetDataset), checked(CSVDataset)
TextFile, JSONFile = checked(TextDataset), checked(JSONDataset)


def test_a_missing_raw_file_is_an_error_with_file_command_and_page(tmp_path):
    raw = RawFile(
        filepath=str(tmp_path / "amazon/reviews_Beauty_5.json.gz"),
        download="amazon_beauty",
        page="http://example.org/amazon",
    )
    with pytest.raises(DatasetError) as error:
        raw.load()
    for expected in (
        "reviews_Beauty_5.json.gz",
        "deep-interest download amazon_beauty",
        "http://example.org/amazon",
        "DEEP_INTEREST_RAW",
    ):
        assert expected in str(error.value)


def test_a_raw_file_may_be_optional_or_unpacked(tmp_path):
    path = tmp_path / "ml-1m.zip"
    assert RawFile(filepath=str(path), optional=True).load() is None
    (tmp_path / "ml-1m").mkdir()
    assert RawFile(filepath=str(path)).load() == tmp_path / "ml-1m"
    path.write_bytes(b"zip")
    assert RawFile(filepath=str(path)).load() == path


def test_a_parquet_table_keeps_its_types_and_previews_its_first_rows(tmp_path):
    table = pd.DataFrame(
        {
            "user": np.int32([1, 2, 3]),
            "split": pd.Categorical(["train", "test", "train"]),
            "rating": np.float32([1, 2, np.nan]),
        }
    )
    dataset = ParquetTable(filepath=str(tmp_path / "t.parquet"))
    assert dataset.preview() is None
    dataset.save(table)
    pd.testing.assert_frame_equal(dataset.load(), table)
    assert dataset.preview(nrows=2)["data"] == [[1, "train", 1.0], [2, "test", 2.0]]


def test_tables_are_streamed_to_one_folder(tmp_path):
    dataset = ParquetFolder(filepath=str(tmp_path / "log"))
    blocks = (pd.DataFrame({"user": [k, k]}) for k in range(3))
    dataset.save({"behaviors": blocks, "items": [pd.DataFrame({"item": [1]})]})
    assert list(pd.read_parquet(dataset.load() / "behaviors.parquet")["user"]) == [0, 0, 1, 1, 2, 2]


def test_an_error_in_a_stream_leaves_no_folder(tmp_path):
    def failing():
        yield pd.DataFrame({"user": [1]})
        raise OSError("gone")

    with pytest.raises(DatasetError, match="gone"):
        ParquetFolder(filepath=str(tmp_path / "log")).save({"behaviors": failing()})
    assert not list(tmp_path.iterdir())


def test_csv_text_and_json_are_read_back_and_previewed(tmp_path):
    table = pd.DataFrame({"model": ["base", "din"], "gauc": [0.7, np.nan]})
    csv = CSVTable(filepath=str(tmp_path / "results.csv"))
    csv.save(table)
    pd.testing.assert_frame_equal(csv.load(), table)
    assert csv.preview(nrows=1)["data"] == [["base", 0.7]]
    text = TextFile(filepath=str(tmp_path / "a.md"))
    text.save("λ and α\n")
    assert text.load() == "λ and α\n"
    values = JSONFile(filepath=str(tmp_path / "a.json"))
    values.save({"malformed line": 2})
    assert values.load() == json.loads(values.preview()) == {"malformed line": 2}


def test_json_files_of_several_folders_are_read_by_folder(tmp_path):
    dataset = JSONFiles(path=str(tmp_path / "shop"), files={"tuned": "tune.shop"})
    assert dataset.load() == {}
    for model, rate in (("din", 0.1), ("dien", 0.2)):
        JSONFile(filepath=str(tmp_path / "shop" / model / "tuned.json")).save({"rate": rate})
    (tmp_path / "shop/lr").mkdir()
    assert dataset.load() == {"din": {"rate": 0.1}, "dien": {"rate": 0.2}}
    with pytest.raises(DatasetError, match="can only be loaded here, not saved"):
        dataset.save({})


def test_charts_of_other_pipelines_are_read_by_folder_and_name(tmp_path):
    dataset = JSONFiles(path=str(tmp_path), files={"curves": "shop", "tuning": "tune.shop"})
    assert dataset.load() == {}
    for path in ("dien/tuning", "din/tuning", "din_table4/curves", "din_table4/results"):
        JSONFile(filepath=str(tmp_path / f"{path}.json")).save({"of": path})
    JSONFile(filepath=str(tmp_path / "curves.json")).save({})  # the dataset's own
    assert list(dataset.load()) == ["din_table4_curves", "dien_tuning", "din_tuning"]
    assert dataset.load()["din_tuning"] == {"of": "din/tuning"}
    for path, pipeline in (("din/tuning", "tune.shop.din"), ("din_table4/curves", "din_table4.shop")):
        file = tmp_path / f"{path}.json"
        content = file.read_text()
        file.write_text(content.replace("i", "j"))
        with pytest.raises(DatasetError, match=rf"{path}\.json: it does not .* --pipelines={pipeline}`"):
            dataset.load()
        file.write_text(content)


@pytest.mark.slow
def test_a_chart_is_saved_as_png_and_previewed(tmp_path):
    chart = ChartFile(filepath=str(tmp_path / "a.json"))
    assert chart.preview() is None
    with pytest.raises(DatasetError, match="does not exist; run the pipeline that writes it first"):
        chart.load()
    chart.save(Chart("Title", [Panel([Line([0, 1], [2, 3], "DIN")])]))
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a.json.sha256", "a.json", "a.png"]
    assert chart.preview() == chart.load()
    assert chart.load()["data"][0]["y"] == [2.0, 3.0]


def test_loading_a_checkpoint_does_not_execute_code(tmp_path):
    """Even if the checksum matches, because an attacker may write both files."""

    class Exploit:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    path = tmp_path / "checkpoint.pt"
    torch.save({"states": [Exploit()]}, path)
    for content in (path.read_bytes(), pickle.dumps(Exploit())):
        with atomic_path(path, checksum=True) as temporary:
            temporary.write_bytes(content)
        with pytest.raises(DatasetError, match="is not a checkpoint"):
            CheckpointFile(filepath=str(path)).load()
    assert not (tmp_path / "executed").exists()


@pytest.mark.slow
def test_a_checkpoint_is_read_back(tmp_path):
    dataset = CheckpointFile(filepath=str(tmp_path / "checkpoint.pt"))
    dataset.save({"seeds": [1], "states": [{"w": torch.ones(3)}]})
    torch.testing.assert_close(dataset.load()["states"][0]["w"], torch.ones(3))


ARRAYS = {"item_id": np.arange(3, dtype=np.int32)}
SCHEMA = FeatureSchema(item=(Field(name="item_id", size=4),), behavior=(Field(name="item_id", size=4),))
OBJECTS = {
    CheckpointFile: {"seeds": [1], "states": [{"w": torch.ones(3)}]},
    ParquetTable: pd.DataFrame({"a": [1, 2]}),
    CSVTable: pd.DataFrame({"a": [1, 2]}),
    TextFile: "text\n",
    JSONFile: {"a": 1},
    ChartFile: Chart("Title", [Panel([Line([0, 1], [2, 3], "DIN")])]),
    BehaviorLogFolder: BehaviorLog(np.array([0, 3]), ARRAYS),
    FeatureTablesFolder: FeatureTables(SCHEMA, ARRAYS, {}, {}),
    ParquetFolder: {"items": [pd.DataFrame({"item": [1]})]},
}


def damages(path):
    """Damage a file or folder in several ways, one after the other, and restore it."""
    file = path if path.is_file() else max(path.iterdir(), key=lambda entry: entry.stat().st_size)
    digest = path.with_name(f".{path.name}.sha256") if path.is_file() else path / "SHA256SUMS"
    content, checksums = file.read_bytes(), digest.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]
    for damaged in (flipped, content[:middle], b"", content + b"\0", b"another file\n"):
        file.write_bytes(damaged)
        yield
    file.write_bytes(content)
    for damaged in (None, b"", checksums[:-9]):
        digest.write_bytes(damaged) if damaged is not None else digest.unlink()
        yield
    digest.write_bytes(checksums)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OBJECTS, ids=lambda kind: kind.__name__)
def test_damage_is_an_error_with_file_and_pipeline(tmp_path, kind):
    dataset = kind(filepath=str(tmp_path / "x"), metadata={"pipeline": "shop.din_mba_tuned"})
    dataset.save(OBJECTS[kind])
    dataset.load()
    for _ in damages(tmp_path / "x"):
        with pytest.raises(DatasetError, match=r"/x: .*; run `kedro run --pipelines=tuned\.shop\.din_mba`"):
            dataset.load()
    dataset.load()
    (tmp_path / "x").write_bytes(b"") if (tmp_path / "x").is_file() else (tmp_path / "x/SHA256SUMS").unlink()
    dataset.save(OBJECTS[kind])  # the pipeline that writes it runs again
    dataset.load()


def test_scores_have_a_checksum(tmp_path):
    scores = Scores("v1", iter([pd.DataFrame({"user": [1]})]))
    ScoresFile(filepath=str(tmp_path / "scores.parquet")).save(scores)
    assert damage_of(tmp_path / "scores.parquet") == ""


def test_raw_files_need_no_checksum(tmp_path):
    (tmp_path / "days/2024-03-01").mkdir(parents=True)
    assert RawFile(filepath=str(tmp_path / "days")).load() == tmp_path / "days"
    assert DayFolders(filepath=str(tmp_path / "days")).load() == tmp_path / "days"
