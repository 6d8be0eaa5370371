"""Samples of a log without impressions: ``next_item``, ``last_item`` and ``rated``."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deep_interest.engines.encoded import Codes
from deep_interest.engines.engine import PARTITION, Engine
from deep_interest.engines.negatives import NO_TARGET, PairWithNegatives, Pool, samples_schema
from deep_interest.engines.ordered_log import positions
from deep_interest.errors import InputError
from deep_interest.logs.hashed_sampling import shuffled_users
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import user_shares
from deep_interest.logs.samples import SPLITS, TEST, TRAIN, VALIDATION

if TYPE_CHECKING:
    import ibis.expr.types as ir


def store_samples(engine: Engine, codes: Codes, protocol: ProtocolParameters, name: str) -> dict[str, int]:
    """Store ``log`` and the samples from the stored ``behaviors``.

    Args:
        engine: engine.
        codes: codes of users and items.
        protocol: protocol.
        name: name of the stored samples.

    Returns:
        ``{reason: rows}`` of behaviours that are not samples.
    """
    splits = None if protocol.name == "next_item" else _user_splits(engine, protocol)
    rated = "rating" in engine.stored("behaviors").columns
    if protocol.name == "rated" and not rated:
        raise InputError(
            "protocol.name: rated needs ratings, but the source has none; use next_item or last_item, or set source.behaviors.rating to "
            "the column of the ratings"
        )
    engine.store("log", lambda behaviors: _log(engine, behaviors, splits, protocol), ["behaviors"])
    engine.drop("behaviors")
    if protocol.name == "rated":
        engine.store(name, lambda log: _rated(log, protocol), ["log"])
        return {}
    pair = PairWithNegatives(
        *_pools(engine, codes, protocol), seed=protocol.seed, has_begins=protocol.history_days is not None
    )
    engine.store_mapped(name, pair, "log", samples_schema(has_begins=pair.has_begins))
    return _left_out(engine, protocol, name)


def _log(
    engine: Engine, behaviors: "ir.Table", splits: "ir.Table | None", protocol: ProtocolParameters
) -> "ir.Table":
    """Return the sorted log with the split of each target, `NO_TARGET` for other behaviours."""
    import ibis  # noqa: PLC0415

    log = positions(engine, behaviors, protocol)
    if splits is not None:
        log = log.left_join(splits, log["user"] == splits["split_user"]).drop("split_user")
        split: Any = log["user_split"].fill_null(NO_TARGET)
        if protocol.name == "last_item":
            split = ibis.ifelse(log["is_target"] & (log["later_targets"] == 0), split, NO_TARGET)
        return log.mutate(split=split.cast("int8")).drop("user_split", "later_targets")
    validates = log["later_targets"] == 1 if protocol.mode == "validated" else ibis.literal(False)
    split = ibis.cases((log["later_targets"] == 0, TEST), (validates, VALIDATION), else_=TRAIN)
    target = (log["length"] >= protocol.min_behaviors) & (log["position"] >= 1) & log["is_target"]
    return log.mutate(split=ibis.ifelse(target, split, NO_TARGET).cast("int8")).drop("later_targets")


def _user_splits(engine: Engine, protocol: ProtocolParameters) -> "ir.Table":
    """Return the users with samples and their splits: exact shares of the users in the order of their hashes."""
    behaviors = engine.stored("behaviors")
    users = behaviors.group_by("user").aggregate(
        length=behaviors.count(), targets=behaviors["is_target"].cast("int64").sum()
    )
    if protocol.name == "last_item":
        users = users.filter((users["length"] >= protocol.min_behaviors) & (users["targets"] > 0))
    eligible = shuffled_users(engine.collect(users.select("user"))["user"].to_numpy(), protocol.seed)
    tests, validations = user_shares(len(eligible), protocol)
    split = np.full(len(eligible), TRAIN, np.int8)
    split[:tests] = TEST
    split[tests : tests + validations] = VALIDATION
    return engine.table(pa.table({"split_user": eligible, "user_split": split}))


def _rated(log: "ir.Table", protocol: ProtocolParameters) -> "ir.Table":
    """Return a sample of each rating, positive from a threshold."""
    threshold = float(np.float32(protocol.positive_rating))
    begins = ["history_begin"] if protocol.history_days is not None else []
    return log.select(
        "user", "item", label=(log["rating"].cast("float64") >= threshold).cast("int8"), time=log["time"],
        history_end=log["history_end"], **{name: log[name] for name in begins}, split=split_name(log["split"]),
        **{PARTITION: log[PARTITION]},
    )  # fmt: skip


def split_name(split: Any) -> Any:
    """Return an expression of the names of splits."""
    import ibis  # noqa: PLC0415

    return ibis.cases(*((split == index, name) for index, name in enumerate(SPLITS)), else_=None)


def _pools(engine: Engine, codes: Codes, protocol: ProtocolParameters) -> tuple[Pool, Pool]:
    """Return the pools of training and of held-out negatives."""
    log = engine.stored("log")
    counted = log.filter(~log["split"].isin([VALIDATION, TEST]))
    by_item = engine.collect(counted.group_by("item").aggregate(rows=counted.count()))
    counts = np.zeros(codes.items + 1, np.int64)
    counts[by_item["item"].to_numpy()] = by_item["rows"].to_numpy()
    trained = np.flatnonzero(counts).astype(np.int32)
    if protocol.negatives == "popularity":
        pool = Pool(trained, counts[trained])
        return pool, pool
    everything = Pool(np.arange(1, codes.items + 1, dtype=np.int32))
    return Pool(trained) if protocol.negative_pool == "trained" else everything, everything


def _left_out(engine: Engine, protocol: ProtocolParameters, name: str) -> dict[str, int]:
    log, samples = engine.stored("log"), engine.stored(name)
    counts = engine.collect(
        log.aggregate(
            short=(log["length"] < protocol.min_behaviors).cast("int64").sum(),
            targets=(log["split"] != NO_TARGET).cast("int64").sum(),
        )
    ).to_pylist()[0]
    pairs = engine.collect(samples.count()).as_py() // 2
    left_out = {
        f"behaviors of users with fewer than {protocol.min_behaviors} behaviors": int(counts["short"]),
        "targets of users who have interacted with all items that may be sampled (no negative possible)": int(
            counts["targets"] - pairs
        ),
    }
    return {reason: rows for reason, rows in left_out.items() if rows}
