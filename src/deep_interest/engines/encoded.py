"""Behaviours and impressions with codes instead of ids, in partitions by user."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from deep_interest.engines.engine import PARTITION, Engine
from deep_interest.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir


class Codes:
    """Codes of users and items as tables of an engine.

    Args:
        engine: engine.
        user_ids, item_ids: table with the column ``id``; the code of an id is its row index plus 1.
    """

    def __init__(self, engine: Engine, user_ids: pd.DataFrame, item_ids: pd.DataFrame) -> None:
        self.engine = engine
        self.users, self.items = len(user_ids), len(item_ids)
        self._user_codes = _code_table(engine, user_ids)
        self._item_codes = _code_table(engine, item_ids)

    def encode(self, events: "ir.Table", columns: Mapping[str, Any]) -> "ir.Table":
        """Return events with the columns ``user``, ``item``, ``partition`` and others.

        Args:
            events: behaviours or impressions with ids.
            columns: ``{name: expression}`` of further columns.

        Returns:
            Codes are int32; 0 for an id without a code.
        """
        chosen = events.select(user_id=events["user"], item_id=events["item"], **columns)
        users, items = self._user_codes, self._item_codes
        chosen = chosen.mutate(
            user_id=chosen["user_id"].cast(users["id"].type()),
            item_id=chosen["item_id"].cast(items["id"].type()),
        )
        joined = (
            chosen.left_join(users, chosen["user_id"] == users["id"])
            .drop("user_id", "id")
            .rename(user="code")
        )
        joined = (
            joined.left_join(items, joined["item_id"] == items["id"])
            .drop("item_id", "id")
            .rename(item="code")
        )
        joined = joined.mutate(
            user=joined["user"].fill_null(0).cast("int32"), item=joined["item"].fill_null(0).cast("int32")
        )
        return joined.mutate(**{PARTITION: self.engine.partition_of(joined["user"])})


def check_items_known(engine: Engine, name: str) -> None:
    """Check that all items of a stored table are in the catalogue.

    Raises:
        InputError: the item of a behaviour is not.
    """
    behaviors = engine.stored(name)
    unknown = engine.collect(behaviors.filter(behaviors["item"] == 0).count()).as_py()
    if unknown:
        raise InputError(
            f"items: {unknown} behaviours refer to items without a row; add the items to the item table"
        )


def _code_table(engine: Engine, ids: pd.DataFrame) -> "ir.Table":
    values = pa.Array.from_pandas(ids["id"])
    if pa.types.is_large_string(values.type):
        values = values.cast(pa.string())
    return engine.table(pa.table({"id": values, "code": np.arange(1, len(ids) + 1, dtype=np.int32)}))
