import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from kedro.io import DatasetError

from deep_interest.datasets import (
    ChartFile,
    ChartFiles,
    CheckpointFile,
    CSVTable,
    JSONFile,
    JSONFiles,
    ParquetFolder,
    ParquetTable,
    RawFile,
    TextFile,
)
from deep_interest.figures.chart import Chart, Line, Panel


def test_a_missing_raw_file_names_file_command_and_page(tmp_path):
    raw = RawFile(
        filepath=str(tmp_path / "amazon/reviews_Beauty_5.json.gz"),
        download="amazon_beauty",
        page="http://example.org/amazon",
    )
    with pytest.raises(DatasetError) as error:
        raw.load()
    for part in (
        "reviews_Beauty_5.json.gz",
        "deep-interest download amazon_beauty",
        "http://example.org/amazon",
        "DEEP_INTEREST_RAW",
    ):
        assert part in str(error.value)


def test_a_raw_file_may_be_optional_or_lie_there_unpacked(tmp_path):
    path = tmp_path / "ml-1m.zip"
    assert RawFile(filepath=str(path), optional=True).load() is None
    (tmp_path / "ml-1m").mkdir()
    assert RawFile(filepath=str(path)).load() == tmp_path / "ml-1m"
    path.write_bytes(b"zip")
    assert RawFile(filepath=str(path)).load() == path


def test_a_parquet_table_keeps_its_types_and_shows_its_head(tmp_path):
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


def test_tables_are_streamed_into_one_folder(tmp_path):
    dataset = ParquetFolder(filepath=str(tmp_path / "log"))
    blocks = (pd.DataFrame({"user": [k, k]}) for k in range(3))
    dataset.save({"behaviors": blocks, "items": [pd.DataFrame({"item": [1]})]})
    assert list(pd.read_parquet(dataset.load() / "behaviors.parquet")["user"]) == [0, 0, 1, 1, 2, 2]


def test_a_stream_that_breaks_leaves_no_folder(tmp_path):
    def broken():
        yield pd.DataFrame({"user": [1]})
        raise OSError("gone")

    with pytest.raises(DatasetError, match="gone"):
        ParquetFolder(filepath=str(tmp_path / "log")).save({"behaviors": broken()})
    assert not list(tmp_path.iterdir())


def test_csv_text_and_json_come_back_and_preview(tmp_path):
    table = pd.DataFrame({"model": ["base", "din"], "gauc": [0.7, np.nan]})
    csv = CSVTable(filepath=str(tmp_path / "results.csv"))
    csv.save(table)
    pd.testing.assert_frame_equal(csv.load(), table)
    assert json.loads(json.dumps(csv.preview()))["data"] == [["base", 0.7], ["din", None]]
    text = TextFile(filepath=str(tmp_path / "a.md"))
    text.save("λ and α\n")
    assert text.load() == "λ and α\n"
    facts = JSONFile(filepath=str(tmp_path / "a.json"))
    facts.save({"broken line": 2})
    assert facts.load() == json.loads(facts.preview()) == {"broken line": 2}


def test_values_of_several_rows_come_by_their_folders_and_none_without_one(tmp_path):
    every = JSONFiles(filepath=str(tmp_path / "shop"), name="tuned.json")
    assert every.load() == {}
    for row, rate in (("din", 0.1), ("dien", 0.2)):
        JSONFile(filepath=str(tmp_path / "shop" / row / "tuned.json")).save({"rate": rate})
    (tmp_path / "shop/lr").mkdir()
    assert every.load() == {"din": {"rate": 0.1}, "dien": {"rate": 0.2}}
    with pytest.raises(DatasetError, match="read, never written"):
        every.save({})


def test_charts_of_other_pipelines_come_by_folder_and_name_and_none_before_they_are_drawn(tmp_path):
    every = ChartFiles(filepath=str(tmp_path), names=["curves", "tuning"])
    assert every.load() == {}
    for place in ("dien/tuning", "din/tuning", "din_table4/curves", "din_table4/results"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / f"{place}.json").write_text(json.dumps({"of": place}))
    (tmp_path / "curves.json").write_text("{}")  # the dataset's own
    assert list(every.load()) == ["din_table4_curves", "dien_tuning", "din_tuning"]
    assert every.load()["din_tuning"] == {"of": "din/tuning"}


def test_a_chart_becomes_a_picture_and_a_preview(tmp_path):
    chart = ChartFile(filepath=str(tmp_path / "a.json"))
    assert chart.preview() is None
    with pytest.raises(DatasetError, match="run the pipeline that draws it"):
        chart.load()
    chart.save(Chart("Title", [Panel([Line([0, 1], [2, 3], "DIN")])]))
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert chart.preview() == chart.load()
    assert chart.load()["data"][0]["y"] == [2.0, 3.0]


def test_a_checkpoint_never_runs_code_from_its_file(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = tmp_path / "checkpoint.pt"
    torch.save({"states": [Trap()]}, path)
    with pytest.raises(DatasetError, match="no whole checkpoint"):
        CheckpointFile(filepath=str(path)).load()
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DatasetError, match="no whole checkpoint"):
        CheckpointFile(filepath=str(path)).load()
    assert not (tmp_path / "sprung").exists()


def test_a_checkpoint_comes_back_and_a_damaged_one_is_named(tmp_path):
    dataset = CheckpointFile(filepath=str(tmp_path / "checkpoint.pt"))
    dataset.save({"seeds": [1], "states": [{"w": torch.ones(3)}]})
    torch.testing.assert_close(dataset.load()["states"][0]["w"], torch.ones(3))
    whole = (tmp_path / "checkpoint.pt").read_bytes()
    (tmp_path / "checkpoint.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"checkpoint\.pt is no whole checkpoint .* train the model again"):
        dataset.load()
