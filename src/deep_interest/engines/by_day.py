"""Samples of impressions, split by day."""

from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from deep_interest.engines.catalogue import split_name
from deep_interest.engines.engine import Engine
from deep_interest.engines.ordered_log import count_before, days_of
from deep_interest.errors import InputError
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import TEST, TRAIN, VALIDATION
from deep_interest.logs.tables import TRUE_PROBABILITY
from deep_interest.logs.vocabulary import FieldVocabularies, FieldVocabulary

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Days:
    """The days of each split: training days from ``first``, validation days, test days until ``last``."""

    first: int
    first_validation: int
    first_test: int
    last: int


def store_samples(
    engine: Engine, protocol: ProtocolParameters, features: FeatureColumns
) -> tuple[dict[str, int], dict[str, FieldVocabulary]]:
    """Store ``samples`` from the stored ``impressions`` and ``log``.

    Args:
        engine: engine.
        protocol: protocol, ``by_day``.
        features: feature columns; context features are learned from the training days.

    Returns:
        ``{reason: rows}`` of impressions that are not samples, and the vocabularies of the context features.

    Raises:
        InputError: there are too few days.
    """
    days, left_out = _days_in_use(engine, protocol)
    engine.store("seen", partial(_seen, days=days, protocol=protocol), ["impressions", "log"])
    vocabularies = {
        name: _learned(engine, f"context_{k}", name, features) for k, name in enumerate(features.context)
    }
    begins, probability = ("history_begin", TRUE_PROBABILITY)
    columns = engine.stored("seen").columns
    schema = _schema(
        [begins] if begins in columns else [], vocabularies, has_probability=probability in columns
    )
    engine.store_mapped("samples", EncodeContext(vocabularies, schema), "seen", schema)
    return left_out, vocabularies


@dataclass(frozen=True)
class EncodeContext:
    """Encode the context features of a partition of the samples.

    Attributes:
        vocabularies: ``{feature: vocabulary}`` in the order of the columns ``context_0``, ….
        schema: columns of the samples.
    """

    vocabularies: dict[str, FieldVocabulary]
    schema: pa.Schema

    def __call__(self, seen: pa.Table) -> pa.Table:
        """Return the samples, sorted by user and time."""
        seen = seen.sort_by([(name, "ascending") for name in ("user", "time", "item")])
        columns = {name: seen[name] for name in seen.column_names if not name.startswith("context_")}
        for k, (name, vocabulary) in enumerate(self.vocabularies.items()):
            columns[name] = pa.chunked_array(
                [vocabulary.encode(seen[f"context_{k}"].to_pandas())], pa.int32()
            )
        return pa.table({field.name: columns[field.name] for field in self.schema}).cast(self.schema)


def _schema(begins: list[str], context: dict[str, Any], *, has_probability: bool) -> pa.Schema:
    kinds = {
        "user": pa.int32(),
        "item": pa.int32(),
        "label": pa.int8(),
        "time": pa.int64(),
        "history_end": pa.int32(),
    }
    kinds |= (
        {name: pa.int32() for name in begins}
        | {"split": pa.string()}
        | {name: pa.int32() for name in context}
    )
    kinds |= {TRUE_PROBABILITY: pa.float32()} if has_probability else {}
    return pa.schema(list(kinds.items()))


def day_column(impressions: "ir.Table", protocol: ProtocolParameters) -> Any:
    """Return an expression of the day of each impression: from the source if it has days, otherwise from the time."""
    if "day" in impressions.columns:
        return impressions["day"].cast("int64")
    return days_of(impressions["time"], protocol.calendar)


def _days_in_use(engine: Engine, protocol: ProtocolParameters) -> tuple[Days, dict[str, int]]:
    impressions = engine.stored("impressions")
    by_day = engine.collect(impressions.group_by("day").aggregate(rows=impressions.count()))
    order = np.argsort(by_day["day"].to_numpy())
    day, rows = by_day["day"].to_numpy()[order], by_day["rows"].to_numpy()[order]
    left_out = {}
    if protocol.last_day is not None:
        late = day > (protocol.last_day - date(1970, 1, 1)).days
        left_out[f"impressions after protocol.last_day ({protocol.last_day})"] = int(rows[late].sum())
        day, rows = day[~late], rows[~late]
    held_out = protocol.validation_days + protocol.test_days
    if protocol.train_days is not None:
        early = len(day) - min(len(day), protocol.train_days + held_out)
        reason = f"impressions before the training days (protocol.train_days: {protocol.train_days})"
        left_out[reason] = int(rows[:early].sum())
        day = day[early:]
    if len(day) <= held_out:
        raise InputError(
            f"impressions.time: found {len(day)} distinct days, but {protocol.validation_days} validation and {protocol.test_days} "
            "test days need at least one training day before them; provide more days, or check the unit of the times"
        )
    days = Days(int(day[0]), int(day[-held_out]), int(day[-protocol.test_days]), int(day[-1]))
    return days, {reason: count for reason, count in left_out.items() if count}


def _seen(
    impressions: "ir.Table", log: "ir.Table", *, days: Days, protocol: ProtocolParameters
) -> "ir.Table":
    """Return the impressions in use with their splits, and what each sees of the log: behaviours strictly before its time."""
    import ibis  # noqa: PLC0415

    day = impressions["day"]
    used = impressions.filter((day >= days.first) & (day <= days.last))
    split = ibis.cases(
        (used["day"] >= days.first_test, TEST),
        (used["day"] >= days.first_validation, VALIDATION),
        else_=TRAIN,
    )
    used = used.mutate(split=split_name(split))
    seen = count_before(used, "time", log, "time", "history_end")
    if protocol.history_days is not None:
        dated = log.mutate(
            log_day=log["day"] if "day" in log.columns else days_of(log["time"], protocol.calendar)
        )
        seen = seen.mutate(first_day=seen["day"] - protocol.history_days)
        seen = count_before(seen, "first_day", dated, "log_day", "history_begin").drop("first_day")
    return seen.drop("day")


def _learned(engine: Engine, column: str, name: str, features: FeatureColumns) -> FieldVocabulary:
    """Return the vocabulary of a context feature, from the values of the training days."""
    seen = engine.stored("seen")
    train = seen.filter((seen["split"] == "train") & seen[column].notnull())
    values = engine.collect(train.group_by(column).aggregate(rows=train.count())).to_pandas()
    buckets = features.buckets.get(name)
    learned: pd.Series = values[column]
    if isinstance(buckets, int):  # quantiles depend on how often each value occurs
        learned = learned.repeat(values["rows"].to_numpy())
    vocabularies = FieldVocabularies()
    vocabularies.learn(name, learned, buckets=buckets)
    return vocabularies.fields[name]
