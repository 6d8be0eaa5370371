"""File formats: equal content gives equal tables, and damaged or changing files are errors."""

import gzip
import json

import duckdb
import pandas as pd
import pytest
from support.tables import read, write

from deep_interest.errors import InputError
from deep_interest.sources.tables import reader, scan


@pytest.mark.slow
def test_csv_parquet_and_json_lines_give_the_same_tables(tmp_path):
    write(tmp_path)
    frames = {
        "visits": pd.read_csv(tmp_path / "visits.csv"),
        "items": pd.read_csv(tmp_path / "items.csv"),
        "impressions": pd.read_csv(tmp_path / "impressions.csv"),
    }
    for name, frame in frames.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
        lines = "\n".join(json.dumps(row) for row in frame.to_dict("records"))
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress((tmp_path / f"{name}.csv").read_bytes()))
    expected = read(tmp_path)
    for ending in ("parquet", "jsonl.gz", "csv.gz"):
        files = {"behaviors": "visits", "items": "items", "impressions": "impressions"}
        tables = read(tmp_path, **{table: {"files": f"{file}.{ending}"} for table, file in files.items()})
        for table in files:
            pd.testing.assert_frame_equal(getattr(tables, table), getattr(expected, table))


@pytest.mark.slow
def test_a_table_may_be_in_a_database(tmp_path):
    write(tmp_path)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        database.execute(
            f"CREATE SCHEMA log; CREATE TABLE log.visits AS FROM read_csv('{tmp_path / 'visits.csv'}')"
        )
    expected = read(tmp_path).behaviors
    tables = read(tmp_path, behaviors={"files": "shop.duckdb", "table": "log.visits"}).behaviors
    pd.testing.assert_frame_equal(tables, expected)
    with pytest.raises(
        InputError, match=r"shop.duckdb: set `table` to a table of the database; it has visits"
    ):
        read(tmp_path, behaviors={"files": "shop.duckdb"})
    with pytest.raises(InputError, match=r"shop.duckdb: table or view vizits not found"):
        read(tmp_path, behaviors={"files": "shop.duckdb", "table": "vizits"})


def test_an_unnamed_index_column_of_pandas_is_ignored(tmp_path):
    write(
        tmp_path,
        visits=",user,item,time\n0,1,10,50\n1,2,11,60\n",
        impressions="user,item,time,label,place,\n1,10,100,0,top,\n",
    )
    tables = read(tmp_path)
    assert tables.behaviors["item"].tolist() == [10, 11]
    assert tables.impressions["place"].tolist() == ["top"]


@pytest.mark.parametrize(
    ("encoding", "message"),
    [("latin-1", "not encoded in UTF-8.*encoding: cp1252"), ("utf-16", "found UTF-16; set encoding: utf-16")],
)
def test_a_csv_file_in_another_encoding_is_an_error(tmp_path, encoding, message):
    write(tmp_path)
    (tmp_path / "items.csv").write_text("item,category\n10,Käse\n11,b\n", encoding=encoding)
    with pytest.raises(InputError, match=f"items.csv.*{message}"):
        read(tmp_path)


@pytest.mark.parametrize("line", ["[1, 2]", '[{"user": 1}]', "7", '"text"', "{"])
def test_a_json_line_that_is_not_an_object_is_an_error_or_skipped(tmp_path, line):
    write(tmp_path)
    lines = ['{"user": 1, "item": 10, "time": 50}', line, '{"user": 2, "item": 11, "time": 60}']
    (tmp_path / "visits.jsonl").write_text("\n".join(lines) + "\n")
    behaviors = {"files": "visits.jsonl"}
    with pytest.raises(InputError, match=r"visits.jsonl, line 2: expected one JSON object per line"):
        read(tmp_path, behaviors=behaviors)
    tables = read(tmp_path, behaviors=behaviors, skip=True)
    assert tables.behaviors["time"].tolist() == [50, 60]
    assert sum(tables.left_out.values()) == 1


def test_a_truncated_gz_is_an_error(tmp_path):
    write(tmp_path)
    packed = gzip.compress("\n".join(f"{k},10,{k * 7919 % 1000}" for k in range(20_000)).encode())
    (tmp_path / "v.csv.gz").write_bytes(packed[:-20])
    behaviors = {"files": "v.csv.gz", "names": ["user", "item", "time"]}
    with pytest.raises(InputError, match=r"v.csv.gz: the .gz file is truncated or damaged"):
        read(tmp_path, behaviors=behaviors)


def test_an_incomplete_parquet_file_is_an_error(tmp_path):
    write(tmp_path)
    pd.DataFrame({"user": [1], "item": [10], "time": [1]}).to_parquet(tmp_path / "v.parquet")
    (tmp_path / "v.parquet").write_bytes((tmp_path / "v.parquet").read_bytes()[:-30])
    with pytest.raises(InputError, match=r"v.parquet: not a valid Parquet file"):
        read(tmp_path, behaviors={"files": "v.parquet"})


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    write(tmp_path)
    execute = scan._execute

    def append_meanwhile(connection, sql, parameters, resolved):
        rows = execute(connection, sql, parameters, resolved)
        with resolved.files[0].open("a") as file:
            file.write("9,10,5\n")
        return rows

    monkeypatch.setattr(scan, "_execute", append_meanwhile)
    with pytest.raises(InputError, match=r"visits.csv: the file changed while it was being read"):
        read(tmp_path)


def test_a_file_that_changes_between_two_reads_is_an_error(tmp_path, monkeypatch):
    write(tmp_path)
    load_files = reader.load_files

    def append_after_behaviors(connection, name, *arguments, **options):
        skipped = load_files(connection, name, *arguments, **options)
        if name == "raw_behaviors_0":
            with (tmp_path / "impressions.csv").open("a") as file:
                file.write("2,10,90001,1,top\n")
        return skipped

    monkeypatch.setattr(reader, "load_files", append_after_behaviors)
    behaviors = {"files": "impressions.csv", "where": {"label": 1}}
    with pytest.raises(InputError, match=r"impressions.csv: the file changed while it was being read"):
        read(tmp_path, behaviors=behaviors)
