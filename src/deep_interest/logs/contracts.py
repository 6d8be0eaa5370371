"""Contracts of the canonical tables, as pandera schemas."""

from typing import Any

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.samples import SPLITS
from deep_interest.logs.tables import CLICK_TIME, TRUE_PROBABILITY, CanonicalTables

_SHOWN = 5  # failures in a message


def validate(tables: CanonicalTables) -> None:
    """Check types, missing values, labels and unique ids of all tables at once.

    Raises:
        InputError: names all columns that fail, with the first invalid value.
    """
    import pandera.pandas as pa  # noqa: PLC0415  # takes half a second; only `deep-interest check` and retraining need it

    failures = []
    for name, schema in _schemas(pa).items():
        table = getattr(tables, name)
        if table is None:
            continue
        try:
            schema.validate(table, lazy=True)
        except pa.errors.SchemaErrors as error:
            failures += [f"{name}.{row}" for row in _described(error.failure_cases)]
    if failures:
        raise InputError(
            f"{'; '.join(failures[:_SHOWN])}; correct the files of the source or its declaration"
        )


def _described(cases: pd.DataFrame) -> list[str]:
    return [
        f"{column}: {len(rows):,} values fail {check}, the first is {rows['failure_case'].iloc[0]!r}"
        for (column, check), rows in cases.groupby(["column", "check"], sort=False, dropna=False)
    ]


def _schemas(pa: Any) -> dict[str, Any]:
    ids = pa.Check(lambda column: column.dtype.kind in "iuOT", name="ids", error="to be integers or strings")
    user, item = (pa.Column(checks=ids, nullable=False) for _ in range(2))
    time = pa.Column("int64", nullable=False)
    days = {"day": pa.Column("int32", required=False)}
    shown = {
        "label": pa.Column("int8", pa.Check.isin([0, 1])),
        CLICK_TIME: pa.Column("int64", required=False),
        TRUE_PROBABILITY: pa.Column(float, pa.Check.in_range(0, 1), required=False, coerce=True),
    }
    count = pa.Check.ge(0)
    given = {
        "split": pa.Column(checks=pa.Check.isin(SPLITS), nullable=False, required=False),
        "segment": pa.Column("int64", count, required=False),
        "history_end": pa.Column("int32", count, required=False),
        "weight": pa.Column("float32", count, required=False),
        "request": pa.Column(nullable=False, required=False),
    }
    events = {"user": user, "item": item, "time": time, **days}
    return {
        "behaviors": pa.DataFrameSchema(events | {"segment": given["segment"]}),
        "impressions": pa.DataFrameSchema(events | shown | given),
        "items": pa.DataFrameSchema({"item": pa.Column(checks=ids, nullable=False, unique=True)}),
        "users": pa.DataFrameSchema({"user": pa.Column(checks=ids, nullable=False, unique=True)}),
    }
