"""Behaviours and impressions with codes instead of ids, in partitions by user."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from deep_interest.engines.engine import PARTITION, Engine
from deep_interest.errors import InputError
from deep_interest.logs.vocabulary import Vocabulary

if TYPE_CHECKING:
    import ibis.expr.types as ir

_ID = "the id of the row"


class Codes:
    """Codes of users and items as tables of an engine.

    Args:
        engine: engine.
        user_ids, item_ids: table with the column ``id``; the code of an id is its row index plus 1.
    """

    def __init__(self, engine: Engine, user_ids: pd.DataFrame, item_ids: pd.DataFrame) -> None:
        self.engine = engine
        self.users, self.items = len(user_ids), len(item_ids)
        self._users, self._items = _IdCodes(engine, user_ids), _IdCodes(engine, item_ids)

    def encode(self, events: "ir.Table", columns: Mapping[str, Any]) -> "ir.Table":
        """Return events with the columns ``user``, ``item``, ``partition`` and others.

        Args:
            events: behaviours or impressions with ids.
            columns: ``{name: expression}`` of further columns.

        Returns:
            Codes are int32; 0 for an id without a code.
        """
        chosen = events.select(user=events["user"], item=events["item"], **columns)
        coded = self._items.encode(self._users.encode(chosen, "user"), "item")
        return coded.mutate(**{PARTITION: self.engine.partition_of(coded["user"])})


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


class _IdCodes:
    """Codes of one kind of id: a subtraction if the ids are consecutive integers, otherwise a join."""

    def __init__(self, engine: Engine, ids: pd.DataFrame) -> None:
        self._count = len(ids)
        self._first = Vocabulary(pd.Index(ids["id"])).first_of_range
        self._codes = _code_table(engine, ids) if self._first is None else None

    def encode(self, events: "ir.Table", name: str) -> "ir.Table":
        """Replace the ids of a column by their int32 codes; 0 for an id without a code."""
        import ibis  # noqa: PLC0415

        if self._codes is None:
            assert self._first is not None
            ids = events[name].cast("int64")
            known = ids.between(self._first, self._first + self._count - 1)
            code = ibis.ifelse(known, ids - (self._first - 1), 0)
            return events.mutate(**{name: code.fill_null(0).cast("int32")})
        events = events.mutate(**{_ID: events[name].cast(self._codes["id"].type())}).drop(name)
        joined = events.left_join(self._codes, events[_ID] == self._codes["id"]).drop(_ID, "id")
        return joined.mutate(**{name: joined["code"].fill_null(0).cast("int32")}).drop("code")


def _code_table(engine: Engine, ids: pd.DataFrame) -> "ir.Table":
    values = pa.Array.from_pandas(ids["id"])
    if pa.types.is_large_string(values.type):
        values = values.cast(pa.string())
    return engine.table(pa.table({"id": values, "code": np.arange(1, len(ids) + 1, dtype=np.int32)}))
