"""Items and users of declared tables: one row each, and those that events name but no row describes."""

from collections.abc import Sequence

from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.sources.sql import quoted
from deep_interest.sources.tables.checks import Checks
from deep_interest.sources.tables.columns import Ids, Part
from deep_interest.sources.tables.declaration import EntityFiles
from deep_interest.sources.tables.features import select_features
from deep_interest.sources.tables.scan import SOURCE_FILE, first_row


def select_entities(
    part: Part, parts: Sequence[Part], key: str, ids: Ids, features: FeatureColumns, checks: Checks
) -> str:
    """The SELECT that makes canonical items or users of a part.

    Args:
        part: one of the table's.
        parts: all of the table's.
        key: ``item`` or ``user``.
        ids: how they are named.
        features: which columns are features, and how.
        checks: of the reading.

    Raises:
        InputError: a row has no id.
    """
    named = ids.checked(key, part, part.item_columns if key == "item" else (part.block.user,))
    whole = checks.require(part, [named])
    columns = [
        f"{named.value} AS {key}", *select_features(checks.connection, part, parts, features), quoted(SOURCE_FILE),
    ]  # fmt: skip
    return f"SELECT {', '.join(columns)} FROM {part.name} WHERE {whole}"


def make_unique(table: str, key: str, blocks: Sequence[EntityFiles], checks: Checks) -> None:
    """Keep the first row of each item or user, and count the others.

    Args:
        table: ``items`` or ``users``, a table of the database.
        key: ``item`` or ``user``.
        blocks: the table's declarations.
        checks: of the reading.

    Raises:
        InputError: one has two rows, and that is declared an error.
    """
    repeated = first_row(
        checks.connection,
        f"SELECT {key}, first({quoted(SOURCE_FILE)}) FROM {table} GROUP BY {key} HAVING count(*) > 1 LIMIT 1",
    )
    if repeated is None:
        return
    if all(block.repeated == "error" for block in blocks):
        raise InputError(
            f"{repeated[1]}: {key} {repeated[0]} has two rows or more, expected one row for each {key}; set "
            f"source.{table}.repeated to first if its first row counts"
        )
    before = checks.rows(table)
    checks.connection.execute(
        f"DELETE FROM {table} WHERE rowid NOT IN (SELECT min(rowid) FROM {table} GROUP BY {key})"
    )
    checks.count(f"further rows of the same {key} in {table}", before - checks.rows(table))


def add_missing_items(events: Sequence[str], checks: Checks, *, declared: bool) -> dict[str, int]:
    """Give a row without features to every item of the tables ``events`` that has none.

    Args:
        events: those of ``behaviors`` and ``impressions`` that there are.
        checks: of the reading.
        declared: there is a table of items; otherwise it is made.

    Returns:
        ``{fact: rows}`` of the events whose items had none.
    """
    connection = checks.connection
    used = " UNION ".join(f"SELECT DISTINCT item FROM {table}" for table in events)
    if not declared:
        connection.execute(f"CREATE TEMP TABLE items AS SELECT item FROM ({used}) ORDER BY item")
        return {}
    notes = {
        f"{table} of items that have no row among the items": checks.rows(
            f"{table} ANTI JOIN items USING (item)"
        )
        for table in events
    }
    connection.execute(
        f"INSERT INTO items BY NAME SELECT item FROM ({used}) ANTI JOIN items USING (item) ORDER BY item"
    )
    return notes
