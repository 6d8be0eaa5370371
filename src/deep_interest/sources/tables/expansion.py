"""One row per item: expand the rows of a raw table whose block declares lists."""

from deep_interest.sources.tables.checks import RowChecks
from deep_interest.sources.tables.columns import RawTable
from deep_interest.sources.tables.declaration import BehaviorFiles, ImpressionFiles, ItemFiles
from deep_interest.sources.tables.lists import count_repeated_lists, explode_lists, keep_first_histories
from deep_interest.sources.tables.parallel_lists import check_lists, explode
from deep_interest.sources.tables.times import ticks_per_second, time_sql


def expand_lists(checks: RowChecks, table: RawTable, time_zone: str) -> None:
    """Replace the rows by one row per item of their lists; a table without lists keeps its rows.

    Args:
        checks: row checks of this run; counts rows that are left out, and notes sequences that look like histories.
        table: raw table.
        time_zone: zone of times without a UTC offset.

    Raises:
        InputError: lists cannot be split, or lists of a row have different lengths.
    """
    block = table.block
    if isinstance(block, ItemFiles) and block.sequence:
        _expand_items(checks, table, block, block.sequence)
    elif isinstance(block, BehaviorFiles) and block.history:
        _keep_first_histories(checks, table, block, time_zone)
        explode_lists(checks.connection, table)
    elif isinstance(block, BehaviorFiles) and block.sequence:
        _expand_sequences(checks, table, block, block.sequence)
    elif isinstance(block, ImpressionFiles) and block.sequence:
        explode_lists(checks.connection, table)
    table.load_column_types(checks.connection)


def _expand_items(checks: RowChecks, table: RawTable, block: ItemFiles, ids: tuple[str, ...]) -> None:
    columns = [*ids, *dict.fromkeys(table.feature_columns.values())]
    check_lists(checks, table, columns, block.separator, key="source.items")
    explode(checks.connection, table, columns, block.separator, ids=len(ids))


def _keep_first_histories(checks: RowChecks, table: RawTable, block: BehaviorFiles, time_zone: str) -> None:
    ticks = ticks_per_second(checks.connection, table)
    time = time_sql(checks.connection, table, block.time, time_zone, ticks)
    later = keep_first_histories(checks.connection, table, time, invalid_first=not checks.skip)
    reason = f"rows of {table.target} with a later {block.history} of the same user (the first one counts)"
    checks.count_skipped(reason, later)


def _expand_sequences(checks: RowChecks, table: RawTable, block: BehaviorFiles, sequence: str) -> None:
    """Expand the sequences of users, and the lists that are parallel to them: of times, or of features."""
    repeated, rows = count_repeated_lists(checks.connection, table), checks.count_rows(table.name)
    if 2 * repeated > rows:
        checks.notes[
            f"rows of behaviors with the same {sequence} as another of the user (is it a history?)"
        ] = repeated
    columns = dict.fromkeys([block.time.column, *table.feature_columns.values()])
    parallel = [name for name in columns if table.column_types.get(name, "").endswith("]")]
    if parallel:
        check_lists(checks, table, [sequence, *parallel], block.separator, key="source.behaviors")
    explode_lists(checks.connection, table, parallel)
