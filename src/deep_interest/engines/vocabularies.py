"""Ids of users and items, from tables on an engine."""

from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import ibis.expr.types as ir


def user_ids(connection: Any, behaviors: "ir.Table", impressions: "ir.Table | None") -> pd.DataFrame:
    """Return the distinct user ids in increasing order; the code of an id is its row index plus 1."""
    ids = behaviors.select(id=behaviors["user"])
    if impressions is not None:
        import ibis.expr.datatypes as dt  # noqa: PLC0415

        kind = dt.highest_precedence([behaviors["user"].type(), impressions["user"].type()])
        shown = impressions.select(id=impressions["user"].cast(kind))
        ids = ids.mutate(id=ids["id"].cast(kind)).union(shown)
    return _sorted_ids(connection, ids)


def _sorted_ids(connection: Any, ids: "ir.Table") -> pd.DataFrame:
    distinct = ids.filter(ids["id"].notnull()).distinct()
    return connection.to_pyarrow(distinct.order_by("id")).to_pandas()
