"""The feature columns of declared tables as SQL: values as they are, numbers for buckets, cells with several values."""

from collections.abc import Sequence

import duckdb

from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureColumns
from deep_interest.sources.sql import literal, quoted
from deep_interest.sources.tables.columns import INTEGERS, Part
from deep_interest.sources.tables.scan import first_row


def select_features(
    connection: duckdb.DuckDBPyConnection, part: Part, parts: Sequence[Part], features: FeatureColumns
) -> list[str]:
    """The columns of a SELECT that gives a part's features.

    Args:
        connection: the database that has the part.
        part: one of the table's.
        parts: all of the table's, whose types a feature may not share.
        features: which have buckets or several values.

    Raises:
        InputError: a value that is no number in a column with buckets, or a value that contains its separator.
    """
    columns = []
    for name in part.features:
        types = {other.types[other.features[name]] for other in parts if name in other.features}
        if name in features.buckets:
            _check_numbers(connection, part, name)
            value = _number(part, name)
        elif name in features.multi_hot:
            separator = features.multi_hot[name].separator
            _check_separator(connection, part, name, separator)
            value = _cell(part, name, separator)
        else:
            value = _plain(part, name, as_text=len(types) > 1)
        columns.append(f"{value} AS {quoted(name)}")
    return columns


def _number(part: Part, feature: str) -> str:
    value = f"TRY_CAST({quoted(part.features[feature])} AS DOUBLE)"
    return f"CASE WHEN NOT isnan({value}) THEN {value} END"


def _plain(part: Part, feature: str, *, as_text: bool) -> str:
    """Integers, truth values and texts as they are, the rest as text."""
    column, type_ = quoted(part.features[feature]), part.types[part.features[feature]]
    if type_ in INTEGERS or type_ in ("BOOLEAN", "VARCHAR"):
        return f"CAST({column} AS VARCHAR)" if as_text else column
    if type_ in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN NOT isnan({column}) THEN CAST({column} AS VARCHAR) END"
    return f"CAST({column} AS VARCHAR)"


def _cell(part: Part, feature: str, separator: str) -> str:
    """The values of a cell as one text, ``separator`` between them."""
    return f"nullif(coalesce(array_to_string({_list(part, feature)}, {literal(separator)}), CAST({quoted(part.features[feature])} AS VARCHAR)), '')"


def _list(part: Part, feature: str) -> str:
    """SQL of a list's values as texts: of a Parquet list or of a JSON array; NULL of a text."""
    column, type_ = quoted(part.features[feature]), part.types[part.features[feature]]
    if type_.endswith("]"):
        return f"CAST({column} AS VARCHAR[])"
    if type_ != "VARCHAR":
        return "CAST(NULL AS VARCHAR[])"
    array = f"CASE WHEN starts_with(ltrim({column}), '[') THEN {column} END"
    return f"json_extract_string(TRY_CAST({array} AS JSON), '$[*]')"


def _check_numbers(connection: duckdb.DuckDBPyConnection, part: Part, name: str) -> None:
    column = quoted(part.features[name])
    bad = first_row(
        connection,
        f"SELECT count(*), min(CAST({column} AS VARCHAR)) FROM {part.name} WHERE {column} IS NOT NULL AND TRY_CAST({column} AS DOUBLE) IS NULL",
    )
    if bad[0]:
        raise InputError(
            f"{part.shown}, column {part.features[name]}: {bad[0]:,} values are no numbers, such as {bad[1]!r}, but "
            f"features.buckets asks for numbers; clean them or take {name} off the buckets"
        )


def _check_separator(connection: duckdb.DuckDBPyConnection, part: Part, name: str, separator: str) -> None:
    rows, value = first_row(
        connection,
        f"SELECT count(*), min(value) FROM (SELECT unnest({_list(part, name)}) AS value FROM {part.name}) WHERE contains(value, $separator)",
        {"separator": separator},
    )
    if rows:
        raise InputError(
            f"{part.shown}, column {part.features[name]}: {rows:,} values of its lists contain the separator {separator!r}, such as "
            f"{value!r}; set features.multi_hot.{name} to a text that none of them contains"
        )
