"""Tables with hostile names: only the declared files and columns are read, and nothing else on the machine."""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.sources.tables.declaration import Source
from deep_interest.sources.tables.reader import read_tables

HOSTILE = "ab1[]{}*?!^-~$%&|;:'\"`<>()=+,.@# \n\tüЖ漢"
GLOBS = set("*?[")


def read(folder: Path, files: str | list[str], features: FeatureColumns | None = None, **block: object):
    source = Source.model_validate({"behaviors": {"files": files, **block}})
    return read_tables(folder, source, features or FeatureColumns(item=("item_id",)))


def items_of(folder: Path, files: str | list[str], **block: object) -> list[int]:
    return sorted(read(folder, files, **block).behaviors["item"])


def write(path: Path, item: int) -> None:
    """Write a table with one behaviour in the format of the file name extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"user": 1, "item": item, "time": 5}
    if path.suffix == ".csv":
        path.write_text(f"user,item,time\n1,{item},5\n")
    elif path.suffix == ".json":
        path.write_text(json.dumps(row) + "\n")
    else:
        pd.DataFrame([row]).to_parquet(path)


file_names = st.text(HOSTILE, min_size=1, max_size=12).filter(lambda name: name[0] not in "._")


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    names=st.lists(file_names, min_size=2, max_size=4, unique=True),
    folder=file_names.filter(lambda name: name != ".."),
    ending=st.sampled_from([".csv", ".json", ".parquet"]),
)
def test_only_the_declared_file_is_read_whatever_its_name(names, folder, ending):
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / folder
        for item, name in enumerate(names):
            write(path / f"{name}{ending}", item)
        assert items_of(path, f"{names[0]}{ending}") == [0]
        assert items_of(Path(root), folder) == list(range(len(names)))


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
@pytest.mark.parametrize(("name", "decoy"), [("x[1]", "x1"), ("a*b", "axb"), ("q?", "qq"), ("{a,b}", "a")])
def test_a_name_with_glob_characters_is_not_a_pattern(tmp_path, name, decoy, ending):
    write(tmp_path / f"{name}{ending}", 1)
    write(tmp_path / f"{decoy}{ending}", 2)
    assert items_of(tmp_path, f"{name}{ending}") == [1]


def test_a_pattern_reads_all_matching_files(tmp_path):
    for item, name in enumerate(("x[1].csv", "x1.csv", "y.csv")):
        write(tmp_path / name, item)
    assert items_of(tmp_path, "x*.csv") == [0, 1]


@pytest.mark.parametrize("name", ["~t.csv", "file:x.csv", "-v.csv", "md:x.csv"])
def test_a_relative_name_is_not_a_home_folder_or_an_address(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write(Path(name), 3)
    assert items_of(Path(), name) == [3]


def test_a_backslash_with_a_glob_character_is_an_error(tmp_path):
    write(tmp_path / "b\\c.csv", 4)
    assert items_of(tmp_path, "b\\c.csv") == [4]
    write(tmp_path / "b\\[1].csv", 5)
    with pytest.raises(InputError, match="contains a backslash and one of the characters"):
        items_of(tmp_path, "b\\[1].csv")


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(value=st.text(HOSTILE.translate({ord(c): None for c in "=?%\n"}), min_size=1, max_size=12))
def test_the_value_of_a_partition_folder_is_not_changed(value):
    with tempfile.TemporaryDirectory() as root:
        write(Path(root) / "log" / f"kind={value}" / "part.csv", 1)
        write(Path(root) / "log" / "kind=other" / "part.csv", 2)
        assert items_of(Path(root), "log", where={"kind": value}) == [1]


@pytest.mark.parametrize("folder", ["a=1=2", "a?b=1", "a=1?", "a\nb=1", "=1"])
def test_a_folder_that_is_not_a_partition_adds_no_column(tmp_path, folder):
    write(tmp_path / folder / "part.csv", 1)
    assert items_of(tmp_path, folder) == [1]
    with pytest.raises(InputError, match=r"column nothing .* not found; the columns are user, item, time$"):
        items_of(tmp_path, folder, where={"nothing": "1"})


column_names = st.text(HOSTILE.replace("\n", "\\/{"), min_size=1, max_size=10).filter(str.strip)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    names=st.lists(column_names, min_size=4, max_size=4, unique_by=str.casefold),
    ending=st.sampled_from([".csv", ".json", ".parquet"]),
)
def test_columns_are_read_whatever_their_names(names, ending):
    row = dict(zip(names, [1, 2, 3, "top"], strict=True))
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / f"log{ending}"
        if ending == ".csv":
            with path.open("w", newline="") as stream:
                csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([row, row.values()])
        elif ending == ".json":
            path.write_text(json.dumps(row) + "\n")
        else:
            pd.DataFrame([row]).to_parquet(path)
        user, item, time, kind = names
        block = {"files": path.name, "user": user, "item": item, "time": {"column": time}}
        source = {"behaviors": block, "items": {"files": path.name, "item": item, "columns": {"kind": kind}}}
        tables = read_tables(
            Path(root), Source.model_validate(source), FeatureColumns(item=("item_id", "kind"))
        )
        assert tables.behaviors[["user", "item", "time"]].to_numpy().tolist() == [[1, 2, 3]]
        assert tables.items[["item", "kind"]].to_numpy().tolist() == [[2, "top"]]


def test_values_with_sql_in_them_are_values(tmp_path):
    value = "x'); DROP TABLE raw_behaviors_0; --"
    (tmp_path / "log.csv").write_text(f'user,item,time,kind\n1,2,3,"{value}"\n1,9,3,other\n')
    assert items_of(tmp_path, "log.csv", where={"kind": value}) == [2]


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Path:
    """A folder with a secret, and within it a source folder with a database whose views read the secret."""
    secret = tmp_path / "secret.csv"
    secret.write_text("user,item,time\n7777,8,9\n")
    folder = tmp_path / "source"
    folder.mkdir()
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.create_function(
            "st_area", lambda value: value, ["BIGINT"], "BIGINT"
        )  # as in the spatial extension
        connection.execute(f"""
            CREATE TABLE visits AS SELECT 1 AS user, 2 AS item, 3 AS time;
            CREATE VIEW local AS SELECT * FROM visits;
            CREATE VIEW csv AS SELECT * FROM read_csv('{secret}');
            CREATE VIEW text AS SELECT content AS user, 1 AS item, 2 AS time FROM read_text('{secret}');
            CREATE VIEW names AS SELECT file AS user, 1 AS item, 2 AS time FROM glob('{tmp_path}/*');
            CREATE VIEW bytes AS SELECT hex(content) AS user, 1 AS item, 2 AS time FROM read_blob('{secret}');
            CREATE VIEW host AS SELECT content AS user, 1 AS item, 2 AS time FROM read_text('/etc/hostname');
            CREATE VIEW extension AS SELECT st_area(1) AS user, 1 AS item, 2 AS time;
            CREATE VIEW web AS SELECT user, item, time FROM visits;
        """)
    return folder


@pytest.mark.parametrize("table", ["visits", "local"])
def test_tables_and_views_within_a_database_are_read(foreign_folder, table):
    assert items_of(foreign_folder, "shop.duckdb", table=table) == [2]


@pytest.mark.parametrize("view", ["csv", "text", "names", "bytes", "host"])
def test_a_view_cannot_read_other_files(foreign_folder, view):
    with pytest.raises(InputError, match=r"the view reads something outside the database") as error_info:
        read(foreign_folder, "shop.duckdb", table=view)
    assert "7777" not in str(error_info.value)


def test_a_view_cannot_load_an_extension(foreign_folder):
    with pytest.raises(InputError, match=r"view extension not found or not readable .*st_area"):
        read(foreign_folder, "shop.duckdb", table="extension")


def test_a_view_cannot_read_another_file_of_the_source_folder(foreign_folder):
    (foreign_folder / "own.csv").write_text("user,item,time\n7777,8,9\n")
    with duckdb.connect(str(foreign_folder / "shop.duckdb")) as connection:
        connection.execute(f"CREATE VIEW own AS SELECT * FROM read_csv('{foreign_folder}/own.csv')")
    with pytest.raises(InputError, match="outside the database"):
        read(foreign_folder, "shop.duckdb", table="own")


@pytest.mark.parametrize(
    "table", ['visits"; DROP TABLE x; --', "visits' OR 1", "read_csv('/etc/passwd')", "."]
)
def test_a_hostile_table_name_is_an_unknown_table(foreign_folder, table):
    with pytest.raises(InputError, match=r"shop.duckdb: table or view .* not found or not readable"):
        read(foreign_folder, "shop.duckdb", table=table)


def test_a_database_that_was_not_closed_is_read_with_its_write_ahead_log(tmp_path):
    path = tmp_path / "shop.duckdb"
    writer = """if True:  # exits before the checkpoint
        import duckdb, os, sys
        connection = duckdb.connect(sys.argv[1])
        connection.execute("CREATE TABLE visits (user INT, item INT, time INT); CHECKPOINT")
        connection.execute("INSERT INTO visits VALUES (1, 2, 3)")
        os._exit(0)"""
    subprocess.run([sys.executable, "-c", writer, str(path)], check=True)
    assert path.with_name("shop.duckdb.wal").exists()
    assert items_of(tmp_path, "shop.duckdb", table="visits") == [2]


@pytest.mark.parametrize("name", ["[1].duckdb", "it's.duckdb", "x;y.duckdb"])
def test_a_database_is_attached_whatever_its_name(tmp_path, name):
    with duckdb.connect(str(tmp_path / name)) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS user, 2 AS item, 3 AS time")
    assert items_of(tmp_path, name, table="visits") == [2]


def test_a_sequence_column_may_have_the_name_of_an_internal_column(tmp_path):
    (tmp_path / "log.csv").write_text("id,ids,time\n1,5 6,9\n")
    assert items_of(tmp_path, "log.csv", user="id", sequence="ids") == [5, 6]
