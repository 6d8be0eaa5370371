"""The simulator's tables read back, and every way in which they can be wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deep_interest.errors import InputError
from deep_interest.sources.parquet_tables import read_tables

TABLES = {
    "behaviors": pd.DataFrame({"user": [1, 1, 2], "item": [10, 11, 10], "time": [5, 6, 7]}),
    "items": pd.DataFrame({"item": [10, 11, 12], "category": [0, 1, 1], "shop": [3, 4, 3]}),
    "users": pd.DataFrame({"user": [1, 2], "age": [30, 40]}),
    "impressions": pd.DataFrame(
        {
            "user": [1, 2],
            "item": [11, 12],
            "time": [8, 9],
            "label": np.int8([0, 1]),
            "true_probability": [0.1, 0.7],
        }
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in TABLES.items():
        table.to_parquet(tmp_path / f"{name}.parquet", index=False)
    return tmp_path


def replace(folder: Path, name: str, **columns: object) -> None:
    TABLES[name].assign(**columns).to_parquet(folder / f"{name}.parquet", index=False)


def test_all_four_tables_come_back_with_their_further_columns(folder: Path) -> None:
    tables = read_tables(folder)
    for name, expected in TABLES.items():
        pd.testing.assert_frame_equal(getattr(tables, name), expected)
    assert tables.left_out == {}


def test_string_ids_are_accepted(folder: Path) -> None:
    replace(folder, "behaviors", item=["a", "b", "a"])
    replace(folder, "impressions", item=["b", "b"])
    replace(folder, "items", item=["a", "b", "c"])
    assert read_tables(folder).behaviors["item"].tolist() == ["a", "b", "a"]


@pytest.mark.parametrize("name", list(TABLES))
def test_a_missing_table_names_the_file_and_the_command(folder: Path, name: str) -> None:
    (folder / f"{name}.parquet").unlink()
    with pytest.raises(InputError, match=rf"{name}.parquet: no such file.*kedro run --pipelines=simulate"):
        read_tables(folder)


def test_half_a_parquet_file_is_an_error(folder: Path) -> None:
    path = folder / "behaviors.parquet"
    whole = path.read_bytes()
    for content in (b"", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"behaviors.parquet: not a whole Parquet file"):
            read_tables(folder)


@pytest.mark.parametrize(
    ("name", "column"),
    [("behaviors", "time"), ("items", "category"), ("users", "user"), ("impressions", "label")],
)
def test_a_missing_column_is_named(folder: Path, name: str, column: str) -> None:
    TABLES[name].drop(columns=column).to_parquet(folder / f"{name}.parquet", index=False)
    with pytest.raises(InputError, match=rf"{name}.parquet: columns {column} missing"):
        read_tables(folder)


@pytest.mark.parametrize(
    ("name", "column", "values", "message"),
    [
        ("behaviors", "time", [1.0, 2.0, 3.0], "found double, expected int64"),
        ("behaviors", "user", [1.0, 2.0, 3.0], "found double, expected integers or strings"),
        ("behaviors", "item", ["a", "b", "c"], "found .*string, expected int64 as in items"),
        ("behaviors", "item", [10, 99, 10], "1 items are not in items.parquet, first 99"),
        ("impressions", "item", [98, 99], "2 items are not in items.parquet"),
        ("impressions", "label", [0, 2], r"found \[2\], expected 0 or 1"),
        ("impressions", "label", [0.0, 1.0], "found double, expected integers"),
        ("items", "category", ["x", None, "y"], "1 values are missing"),
    ],
)
def test_a_wrong_column_is_named_with_what_was_found(
    folder: Path, name: str, column: str, values: list[object], message: str
) -> None:
    replace(folder, name, **{column: values})
    with pytest.raises(InputError, match=rf"{name}.parquet, column {column}: {message}"):
        read_tables(folder)


def test_user_ids_of_another_type_or_twice_are_refused(folder: Path) -> None:
    replace(folder, "users", user=["1", "2"])
    with pytest.raises(
        InputError, match=r"behaviors.parquet, column user: found int64, expected .*string as in users"
    ):
        read_tables(folder)
    replace(folder, "users", user=[1, 1])
    with pytest.raises(InputError, match="a user has two rows"):
        read_tables(folder)
