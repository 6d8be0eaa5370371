"""Samples of impressions: ``by_day`` and ``given``."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deep_interest.engines.columns import LearnedColumn, learn_column
from deep_interest.engines.days import Days, days_in_use, split_by_day
from deep_interest.engines.engine import Engine
from deep_interest.engines.ordered_log import count_before, days_of
from deep_interest.engines.partitions import partitions
from deep_interest.engines.requests import RequestNumbers, keep_list_negatives, request_numbers
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import SPLITS, TRAIN
from deep_interest.logs.tables import LOGGED_SLOT, TRUE_PROBABILITY

if TYPE_CHECKING:
    import ibis.expr.types as ir

_KINDS = {
    "user": pa.int32(), "item": pa.int32(), "label": pa.int8(), "time": pa.int64(), "history_end": pa.int32(), "segment": pa.int32(),
    "history_begin": pa.int32(), "split": pa.string(),
}  # fmt: skip
_GIVEN = {
    "request": pa.int32(),
    "weight": pa.float32(),
    TRUE_PROBABILITY: pa.float32(),
    LOGGED_SLOT: pa.int32(),
}


def store_samples(
    engine: Engine, protocol: ProtocolParameters, features: FeatureColumns, name: str
) -> tuple[dict[str, int], dict[str, LearnedColumn]]:
    """Store the samples from the stored ``impressions`` and ``log``.

    Args:
        engine: engine.
        protocol: protocol, ``by_day`` or ``given``.
        features: feature columns; context features are learned from the training rows.
        name: name of the stored samples.

    Returns:
        ``{reason: rows}`` of impressions that are not samples, and the encodings of the context features.

    Raises:
        InputError: there are too few days.
    """
    days, left_out = (None, {}) if protocol.name == "given" else days_in_use(engine, protocol)
    engine.store("seen", partial(_seen, days=days, protocol=protocol), ["impressions", "log"])
    used = "seen"
    if protocol.list_negatives is not None:
        used = "kept"
        left_out |= keep_list_negatives(engine, "seen", used, protocol)
    context = {
        feature: learn_column(feature, features, _batches(engine, used, f"context_{k}", feature, features))
        for k, feature in enumerate(features.context)
    }
    columns = engine.stored(used).columns
    numbers = request_numbers(engine, used) if "request" in columns else None
    schema = pa.schema(
        [
            *((column, kind) for column, kind in _KINDS.items() if column in columns),
            *([("day", pa.int64())] if features.sequences and days is not None else []),
            *((feature, pa.int32()) for feature in context),
            *((column, kind) for column, kind in _GIVEN.items() if column in columns),
        ]
    )
    engine.store_mapped(name, EncodeContext(context, numbers, schema), used, schema)
    return left_out, context


@dataclass(frozen=True)
class EncodeContext:
    """Encode the context features and the requests of a partition of the samples.

    Attributes:
        context: ``{feature: encoding}`` in the order of the columns ``context_0``, ….
        requests: numbers of the requests; None if the source gives none.
        schema: columns of the samples.
    """

    context: dict[str, LearnedColumn]
    requests: RequestNumbers | None
    schema: pa.Schema

    def __call__(self, seen: pa.Table) -> pa.Table:
        """Return the samples, sorted by user and time."""
        seen = seen.sort_by([(name, "ascending") for name in ("user", "time", "item")])
        columns = {name: seen[name] for name in seen.column_names if not name.startswith("context_")}
        columns["split"] = pa.DictionaryArray.from_arrays(seen["split"].combine_chunks(), list(SPLITS))
        if self.requests is not None:
            columns["request"] = pa.array(self.requests.of(seen), pa.int32())
        for k, (name, column) in enumerate(self.context.items()):
            columns[name] = pa.array(column.encode(seen[f"context_{k}"].to_pandas()), pa.int32())
        return pa.table({field.name: columns[field.name] for field in self.schema})


def _seen(
    impressions: "ir.Table", log: "ir.Table", *, days: Days | None, protocol: ProtocolParameters
) -> "ir.Table":
    """Return the impressions in use with their splits, and what each sees of the log: behaviours strictly before its time."""
    used = impressions if days is None else split_by_day(impressions, days)
    if "history_end" not in used.columns:
        used = count_before(used, "time", log, "time", "history_end")
    if protocol.history_days is None or days is None:
        return used
    dated = log.mutate(
        log_day=log["day"] if "day" in log.columns else days_of(log["time"], protocol.calendar)
    )
    used = used.mutate(first_day=used["day"] - protocol.history_days)
    return count_before(used, "first_day", dated, "log_day", "history_begin").drop("first_day")


def _batches(engine: Engine, table: str, column: str, name: str, features: FeatureColumns):
    """Return the function that `learn_column` calls: distinct values, or all rows if the values are numbers to be summed."""

    def rows():
        for part in partitions(engine, table, [column, "split"]):
            yield part[column].to_pandas(), part["split"].to_numpy() == TRAIN, None

    def distinct():
        stored = engine.stored(table)
        known = stored["split"] == TRAIN
        counted = stored.group_by(column, known=known).aggregate(rows=stored.count())
        values = engine.collect(counted).to_pandas()
        yield values[column], values["known"].to_numpy(bool), values["rows"].to_numpy(np.int64)

    return rows if name in features.standardised else distinct
