"""Logs that are canonical tables already, as Parquet files in one folder: the simulator's, or your own."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from deep_interest.errors import InputError
from deep_interest.logs.tables import CanonicalTables


def _is_id(type_: pa.DataType) -> bool:
    return types.is_integer(type_) or types.is_string(type_) or types.is_large_string(type_)


_Check = tuple[Callable[[pa.DataType], bool], str]
_ID: _Check = (_is_id, "integers or strings")
_TIME: _Check = (types.is_int64, "int64")
_LABEL: _Check = (types.is_integer, "integers")
_COLUMNS: dict[str, dict[str, _Check]] = {
    "behaviors": {"user": _ID, "item": _ID, "time": _TIME},
    "items": {"item": _ID, "category": _ID},
    "users": {"user": _ID},
    "impressions": {"user": _ID, "item": _ID, "time": _TIME, "label": _LABEL},
}


def read_tables(folder: Path) -> CanonicalTables:
    """Read ``behaviors``, ``items``, ``users`` and ``impressions`` from ``<folder>/<table>.parquet``.

    Further columns come along: profile, context and item features, and an impression's ``true_probability``.

    Raises:
        InputError: for a missing or damaged file, a missing column or one of the wrong type, a missing value in a
            required column, a label other than 0 and 1, or an item that is not in ``items``.
    """
    folder = Path(folder)
    tables = {name: _read(folder / f"{name}.parquet", columns) for name, columns in _COLUMNS.items()}
    _check_labels(folder / "impressions.parquet", tables["impressions"])
    _check_users(folder, tables)
    for name in ("behaviors", "impressions"):
        _check_items(folder / f"{name}.parquet", tables[name], tables["items"])
    return CanonicalTables(**{name: _to_pandas(tables.pop(name)) for name in _COLUMNS})


def _read(path: Path, columns: dict[str, _Check]) -> pa.Table:
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; a log of your own needs behaviors, items, users and impressions here, `kedro run --pipelines=simulate` draws one."
        )
    try:
        schema = pq.read_schema(path)
        _check_columns(path, schema, columns)
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a whole Parquet file ({error}). Write it anew.") from error
    for column in columns:
        if table[column].null_count:
            raise InputError(f"{path}, column {column}: {table[column].null_count} values are missing.")
    return table


def _check_columns(path: Path, schema: pa.Schema, columns: dict[str, _Check]) -> None:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InputError(f"{path}: columns {', '.join(missing)} missing; found {', '.join(schema.names)}.")
    for name, (fits, expected) in columns.items():
        type_ = schema.field(name).type
        if not fits(type_):
            raise InputError(f"{path}, column {name}: found {type_}, expected {expected}.")


def _check_labels(path: Path, impressions: pa.Table) -> None:
    strange = set(pc.unique(impressions["label"]).to_pylist()) - {0, 1}
    if strange:
        raise InputError(f"{path}, column label: found {sorted(strange)[:5]}, expected 0 or 1.")


def _check_users(folder: Path, tables: dict[str, pa.Table]) -> None:
    expected = tables["users"]["user"].type
    for name in ("behaviors", "impressions"):
        found = tables[name]["user"].type
        if types.is_integer(found) != types.is_integer(expected):
            raise InputError(
                f"{folder / name}.parquet, column user: found {found}, expected {expected} as in users.parquet."
            )
    users = tables["users"]["user"]
    if len(pc.unique(users)) < len(users):
        raise InputError(
            f"{folder / 'users.parquet'}, column user: a user has two rows, expected one row for each user."
        )


def _check_items(path: Path, table: pa.Table, items: pa.Table) -> None:
    used = pc.unique(table["item"])
    if used.type != items["item"].type:
        raise InputError(
            f"{path}, column item: found {used.type}, expected {items['item'].type} as in items.parquet."
        )
    unknown = used.filter(pc.invert(pc.is_in(used, value_set=pc.unique(items["item"]))))
    if len(unknown):
        raise InputError(
            f"{path}, column item: {len(unknown)} items are not in items.parquet, first {unknown[0]}."
        )


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(split_blocks=True, self_destruct=True)
