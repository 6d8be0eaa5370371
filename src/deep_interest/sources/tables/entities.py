"""Build the canonical item and user tables: one row per id, with a row for every item that occurs in an event."""

from collections.abc import Sequence

from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.sources.sql import quote_identifier
from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.columns import IdType, RawTable
from deep_interest.sources.tables.declaration import EntityFiles, ItemFiles
from deep_interest.sources.tables.features import select_features
from deep_interest.sources.tables.scan import SOURCE_FILE, fetch_aggregates, fetch_first_row


def select_entities(
    table: RawTable,
    tables: Sequence[RawTable],
    key: str,
    id_type: IdType,
    features: FeatureColumns,
    checks: RowChecks,
) -> str:
    """Return the SELECT statement that turns a raw table into canonical items or users.

    Args:
        table: raw table to select from.
        tables: all raw tables of the same canonical table.
        key: ``item`` or ``user``.
        id_type: type of the ids.
        features: feature columns and their encodings.
        checks: row checks of this run.

    Raises:
        InputError: a row has no valid id.
    """
    columns = table.user_columns if key == "user" else table.item_columns
    id_column = id_type.required_column(key, table, columns)
    is_valid = checks.require_values(table, [id_column])
    selected = [
        f"{id_column.sql} AS {key}",
        *select_features(checks, table, tables, features),
        quote_identifier(SOURCE_FILE),
    ]
    return f"SELECT {', '.join(selected)} FROM {table.name} WHERE {is_valid}"


def drop_duplicates(table: str, key: str, blocks: Sequence[EntityFiles], checks: RowChecks) -> None:
    """Keep the first row of each item or user and count the other rows.

    Args:
        table: database table, ``items`` or ``users``.
        key: ``item`` or ``user``.
        blocks: declarations of the table.
        checks: row checks of this run.

    Raises:
        InputError: an id has several rows and every block declares ``repeated: error``.
    """
    duplicate = fetch_first_row(
        checks.connection,
        f"SELECT {key}, first({quote_identifier(SOURCE_FILE)}) FROM {table} GROUP BY {key} HAVING count(*) > 1 LIMIT 1",
    )
    if duplicate is None:
        return
    if all(block.repeated == "error" for block in blocks):
        rows, ids = fetch_aggregates(
            checks.connection, f"SELECT count(*), count(DISTINCT {key}) FROM {table}"
        )
        raise InputError(
            f"{duplicate[1]}: {key} {duplicate[0]} has several rows ({ids:,} different {key}s in {rows:,} rows), expected one row per "
            f"{key}; check that source.{table}.{key} is the column of the {key} id. If it is, remove the duplicates, or set "
            f"source.{table}.repeated to first to keep the first row"
        )
    if any(isinstance(block, ItemFiles) and block.sequence for block in blocks):
        _note_differing_features(table, key, checks)
    rows_before = checks.count_rows(table)
    checks.connection.execute(
        f"DELETE FROM {table} WHERE rowid NOT IN (SELECT min(rowid) FROM {table} GROUP BY {key})"
    )
    checks.count_skipped(f"duplicate {key} ids in {table}", rows_before - checks.count_rows(table))


def _note_differing_features(table: str, key: str, checks: RowChecks) -> None:
    """Note how many items have different features in several rows: those of a list then are not features of its items alone."""
    columns = [row[0] for row in checks.connection.execute(f"DESCRIBE {table}").fetchall()]
    features = [quote_identifier(name) for name in columns if name not in (key, SOURCE_FILE)]
    if not features:
        return
    differs = " OR ".join(f"count(DISTINCT {name}) > 1" for name in features)
    rows = checks.count_rows(f"(SELECT {key} FROM {table} GROUP BY {key} HAVING {differs})")
    checks.notes[f"{table} with different features in several rows (the first one counts)"] = rows


def add_missing_items(events: Sequence[str], checks: RowChecks, *, is_declared: bool) -> dict[str, int]:
    """Add a row without features for every item that occurs in ``events`` but has no row.

    Args:
        events: those of the tables ``behaviors`` and ``impressions`` that exist.
        checks: row checks of this run.
        is_declared: whether the source declares an item table; otherwise the table is created.

    Returns:
        ``{note: number of rows}`` of the events whose item had no row.
    """
    connection = checks.connection
    event_items = " UNION ".join(f"SELECT DISTINCT item FROM {table}" for table in events)
    if not is_declared:
        connection.execute(f"CREATE TABLE items AS SELECT item FROM ({event_items}) ORDER BY item")
        return {}
    notes = {
        f"{table} whose item is not in the item table": checks.count_rows(
            f"{table} ANTI JOIN items USING (item)"
        )
        for table in events
    }
    connection.execute(
        f"INSERT INTO items BY NAME SELECT item FROM ({event_items}) ANTI JOIN items USING (item) ORDER BY item"
    )
    return notes
