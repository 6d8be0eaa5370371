"""From canonical tables to samples on an engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from deep_interest.engines import by_day, catalogue
from deep_interest.engines.encoded import Codes, check_items_known
from deep_interest.engines.engine import Engine
from deep_interest.engines.ordered_log import days_of, positions
from deep_interest.engines.outputs import counted, known_to_training, log_and_features
from deep_interest.engines.supported import check_supported
from deep_interest.engines.targets import check_targets, is_target
from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoding import FeatureTables
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.history_ranges import Calendar
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import require_splits
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabulary, Vocabulary, check_fits_int32

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class MadeSamples:
    """Result of the data path.

    Attributes:
        log: behaviour log.
        features: feature codes of items and users.
        samples: folder of Parquet files, partitioned by a hash of the user.
        summary: see `logs.summary.samples_summary`.
    """

    log: BehaviorLog
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
        InputError: the tables do not fit the protocol, or the protocol or a feature is not supported on engines.
    """
    check_supported(behaviors, impressions, protocol, features)
    for name, ids in (("users", user_ids), ("items", item_ids)):
        check_fits_int32(name, len(ids) + 1)
    codes = Codes(engine, user_ids, item_ids)
    engine.store(
        "behaviors", lambda: codes.encode(behaviors, _behavior_columns(behaviors, protocol, features))
    )
    check_items_known(engine, "behaviors")
    check_targets(engine, protocol)
    context: dict[str, FieldVocabulary] = {}
    if impressions is None:
        dropped = catalogue.store_samples(engine, codes, protocol)
    else:
        shown, whole = impressions, protocol.model_copy(update={"history_days": None})
        engine.store(
            "impressions", lambda: codes.encode(shown, _impression_columns(shown, protocol, features))
        )
        engine.store("log", lambda log: positions(engine, log, whole), ["behaviors"])
        dropped, context = by_day.store_samples(engine, protocol, features)
    known = known_to_training(engine, codes.users + 1, codes.items + 1, features)
    ids = (Vocabulary(pd.Index(user_ids["id"])), Vocabulary(pd.Index(item_ids["id"])))
    log, tables = log_and_features(engine, entities, known, ids, features, context)
    counts = counted(engine, known, tables)
    users, size = int((known.offsets[1:] > known.offsets[:-1]).sum()), int(known.offsets[-1])
    if impressions is None:
        require_splits(protocol, counts.rows, users=users, behaviors=size, left_out=dropped)
    summary = counts.table(
        left_out | dropped, users=users, items=int(known.logged_items.sum()), behaviors=size
    )
    return MadeSamples(log, tables, engine.folder / "samples", summary)


def _behavior_columns(
    behaviors: "ir.Table", protocol: ProtocolParameters, features: FeatureColumns
) -> dict[str, Any]:
    kinds = {"time": "int64", "rating": "float32", "day": "int32"}
    columns = {name: behaviors[name].cast(kind) for name, kind in kinds.items() if name in behaviors.columns}
    columns["is_target"] = is_target(behaviors, protocol)
    own = {f"own_{k}": _own_column(behaviors, name) for k, name in enumerate(features.own_columns)}
    return columns | own


def _own_column(behaviors: "ir.Table", name: str) -> Any:
    """Return an expression of a feature of the behaviours; hour and weekday of the time, in seconds, if they are not columns."""
    if name in behaviors.columns:
        return behaviors[name]
    hours = days_of(behaviors["time"], Calendar(3600))
    if name == "hour":
        return ((hours % 24) + 24) % 24
    if name == "weekday":  # Monday is 1; 1970-01-01 was a Thursday
        return (((days_of(behaviors["time"], Calendar(86_400)) + 3) % 7) + 7) % 7 + 1
    raise InputError(
        f"features.behavior: {name} is neither an item field nor a column of the behaviours ({', '.join(behaviors.columns)})"
    )


def _impression_columns(
    impressions: "ir.Table", protocol: ProtocolParameters, features: FeatureColumns
) -> dict[str, Any]:
    missing = [name for name in ("label", *features.context) if name not in impressions.columns]
    if missing:
        raise InputError(
            f"impressions: column(s) {', '.join(missing)} not found; the table has {', '.join(impressions.columns)}"
        )
    columns = {
        "time": impressions["time"].cast("int64"),
        "label": impressions["label"].cast("int8"),
        "day": by_day.day_column(impressions, protocol),
    }
    if TRUE_PROBABILITY in impressions.columns:
        columns[TRUE_PROBABILITY] = impressions[TRUE_PROBABILITY].cast("float32")
    return columns | {f"context_{k}": impressions[name] for k, name in enumerate(features.context)}
