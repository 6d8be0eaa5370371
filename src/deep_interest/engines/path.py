"""From canonical tables to samples on an engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from deep_interest.engines import catalogue
from deep_interest.engines import impressions as impression_samples
from deep_interest.engines.columns import LearnedColumn
from deep_interest.engines.days import day_column
from deep_interest.engines.encoded import Codes, check_items_known
from deep_interest.engines.engine import Engine
from deep_interest.engines.ordered_log import days_of, positions
from deep_interest.engines.outputs import (
    feature_tables,
    known_to_training,
    own_vocabularies,
    store_log,
    unknown_codes,
)
from deep_interest.engines.protocol_check import check_protocol
from deep_interest.engines.sequences import membership, store_sequences
from deep_interest.engines.shown import with_shown_negatives
from deep_interest.engines.summary import SummaryCounts
from deep_interest.engines.targets import check_targets, is_target
from deep_interest.errors import InputError
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.history_ranges import Calendar
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import require_splits
from deep_interest.logs.samples import SPLITS
from deep_interest.logs.tables import LOGGED_SLOT, TRUE_PROBABILITY, CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary, check_fits_int32

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class MadeSamples:
    """Result of the data path.

    Attributes:
        log: folder with the arrays of the behaviour log, see `logs.storage`.
        features: feature codes of items and users.
        samples: folder of Parquet files, partitioned by a hash of the user.
        summary: see `logs.summary.samples_summary`.
    """

    log: Path
    features: FeatureTables
    samples: Path
    summary: pd.DataFrame


def make_samples(
    engine: Engine,
    behaviors: "ir.Table",
    impressions: "ir.Table | None",
    *,
    entities: CanonicalTables,
    user_ids: pd.DataFrame,
    item_ids: pd.DataFrame,
    left_out: dict[str, int],
    protocol: ProtocolParameters,
    features: FeatureColumns,
) -> MadeSamples:
    """Make the samples of a protocol.

    Args:
        engine: engine of the tables, with an empty folder.
        behaviors: canonical behaviours, in any order.
        impressions: canonical impressions, in any order; None for a log without impressions.
        entities: tables of items and users; its behaviours and impressions are not read.
        user_ids, item_ids: see `vocabularies`.
        left_out: rows dropped in earlier steps, as ``{reason: rows}``.
        protocol: protocol; random choices are always those of ``sampling: hashed``.
        features: feature columns.

    Raises:
        InputError: the tables do not fit the protocol, or a feature cannot be made from them.
    """
    check_protocol(impressions, protocol)
    for name, ids in (("users", user_ids), ("items", item_ids)):
        check_fits_int32(name, len(ids) + 1)
    codes = Codes(engine, user_ids, item_ids)
    users, items = codes.users + 1, codes.items + 1
    dropped, context, segment_count = _store(engine, codes, behaviors, impressions, protocol, features)
    counts = SummaryCounts({"user": users, "item": items} | {name: of.codes for name, of in context.items()})
    known = known_to_training(engine, counts, users=users, items=items, segment_count=segment_count)
    if impressions is None:
        require_splits(
            protocol, counts.rows, users=known.logged_users, behaviors=known.behaviors, left_out=dropped
        )
    own = own_vocabularies(engine, known, features)
    vocabularies = (Vocabulary(pd.Index(user_ids["id"])), Vocabulary(pd.Index(item_ids["id"])))
    tables = feature_tables(entities, known, vocabularies, features, context=context, own=own)
    log = engine.folder / "arrays"
    store_log(engine, log, tables, features, own, segment_count=segment_count, users=users)
    engine.drop(
        "impressions", "log", "plain_samples", *(f"sequence_{k}" for k in range(len(features.sequences)))
    )
    summary = counts.table(
        left_out | dropped, unknown=unknown_codes(tables, known, context), users=known.logged_users,
        items=int(known.logged_items.sum()), behaviors=known.behaviors,
    )  # fmt: skip
    return MadeSamples(log, tables, engine.folder / "samples", summary)


def _store(
    engine: Engine, codes: Codes, behaviors: "ir.Table", impressions: "ir.Table | None", protocol: ProtocolParameters,
    features: FeatureColumns,
) -> tuple[dict[str, int], dict[str, LearnedColumn], int]:  # fmt: skip
    """Store ``log`` and ``samples``; return the rows left out, the encodings of context features, and the segments of the log."""
    engine.store(
        "behaviors", lambda: codes.encode(behaviors, _behavior_columns(behaviors, protocol, features))
    )
    check_items_known(engine, "behaviors")
    check_targets(engine, protocol)
    context: dict[str, LearnedColumn] = {}
    name = "plain_samples" if features.sequences else "samples"
    if impressions is None:
        dropped = catalogue.store_samples(engine, codes, protocol, name)
    else:
        shown = impressions
        engine.store(
            "impressions", lambda: codes.encode(shown, _impression_columns(shown, protocol, features))
        )
        _store_log(engine, protocol)
        engine.drop("behaviors")
        dropped, context = impression_samples.store_samples(engine, protocol, features, name)
    engine.drop("seen", "kept")
    if features.sequences:
        store_sequences(engine, protocol, features, name, has_impressions=impressions is not None)
    segment_count = codes.users + 1
    stored = engine.stored("log")
    if "segment" in stored.columns:
        segment_count = 1 + int(engine.collect(stored["segment"].max()).as_py())
        check_fits_int32("impressions.history: distinct histories", segment_count)
    return dropped, context, segment_count


def _store_log(engine: Engine, protocol: ProtocolParameters) -> None:
    """Store the sorted log of a dataset with impressions."""
    whole = protocol.model_copy(update={"history_days": None})
    if protocol.auxiliary_negatives != "shown":
        engine.store("log", lambda log: positions(engine, log, whole), ["behaviors"])
        return
    engine.store(
        "log",
        lambda log, shown: with_shown_negatives(engine, positions(engine, log, whole), shown, protocol.seed),
        ["behaviors", "impressions"],
    )


def _behavior_columns(
    behaviors: "ir.Table", protocol: ProtocolParameters, features: FeatureColumns
) -> dict[str, Any]:
    kinds = {"time": "int64", "rating": "float32", "day": "int32", "segment": "int32"}
    columns = {name: behaviors[name].cast(kind) for name, kind in kinds.items() if name in behaviors.columns}
    columns |= {"is_target": is_target(behaviors, protocol)} | membership(behaviors, features)
    own = {f"own_{k}": _own_column(behaviors, name, features) for k, name in enumerate(features.own_columns)}
    return columns | own


def _own_column(behaviors: "ir.Table", name: str, features: FeatureColumns) -> Any:
    """Return an expression of a feature of the behaviours; hour and weekday of the time, in seconds, if they are not columns."""
    if name in behaviors.columns:
        return behaviors[name]
    hours = days_of(behaviors["time"], Calendar(3600))
    if name == "hour":
        return ((hours % 24) + 24) % 24
    if name == "weekday":  # Monday is 1; 1970-01-01 was a Thursday
        return (((days_of(behaviors["time"], Calendar(86_400)) + 3) % 7) + 7) % 7 + 1
    raise InputError(
        f"{features.place_of(name)}: {name} is neither an item field nor a column of the behaviours ({', '.join(behaviors.columns)})"
    )


def _impression_columns(
    impressions: "ir.Table", protocol: ProtocolParameters, features: FeatureColumns
) -> dict[str, Any]:
    missing = [
        name for name in ("label", *features.columns_of_impressions) if name not in impressions.columns
    ]
    if missing:
        raise InputError(
            f"impressions: column(s) {', '.join(missing)} not found; the table has {', '.join(impressions.columns)}"
        )
    columns = {
        "time": impressions["time"].cast("int64"),
        "label": impressions["label"].cast("int8"),
        "day": day_column(impressions, protocol),
    }
    kinds = {"segment": "int32", "history_end": "int32", "weight": "float32", TRUE_PROBABILITY: "float32"}
    columns |= {
        name: impressions[name].cast(kind) for name, kind in kinds.items() if name in impressions.columns
    }
    if "request" in impressions.columns:
        columns["request"] = impressions["request"]
    if features.position is not None:
        slot = impressions[features.position].try_cast("float64")
        is_valid = (slot >= 1) & (slot == slot.floor()) & (slot < 2**31)
        columns[LOGGED_SLOT] = is_valid.ifelse(slot, 0).fill_null(0).cast("int32")
    if protocol.name == "given":
        columns["split"] = _split_code(impressions["split"])
    return columns | {f"context_{k}": impressions[name] for k, name in enumerate(features.context)}


def _split_code(split: Any) -> Any:
    """Return an expression of the index of a split into SPLITS."""
    import ibis  # noqa: PLC0415

    return ibis.cases(*((split == name, code) for code, name in enumerate(SPLITS))).cast("int8")
