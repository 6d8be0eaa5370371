"""The arrays of the log, the features and the summary, made in this process from what an engine has stored.

The tables are read one partition after another. In memory are arrays with one value for each user and item, and one partition or one block
of the log.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from deep_interest.engines.columns import LearnedColumn, learn_column
from deep_interest.engines.engine import Engine
from deep_interest.engines.log_arrays import Fields, LogRuns
from deep_interest.engines.partitions import by_segment, partitions, read_partition, segments
from deep_interest.engines.sequences import sequence_arrays
from deep_interest.engines.summary import SummaryCounts, split_codes
from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.encoding import FeatureTables, encode_features
from deep_interest.logs.feature_columns import CLICKED, GAP, FeatureColumns
from deep_interest.logs.samples import TRAIN
from deep_interest.logs.schema import Field
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary, check_fits_int32

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


@dataclass(frozen=True)
class Known:
    """What training knows, and the counts of the log.

    Attributes:
        items: ``(I + 1,)`` bool, candidates of training samples and items in their histories.
        users: ``(U + 1,)`` bool, users with a training sample.
        longest: ``(S,)`` int32, longest history of a training sample by segment of the log.
        logged_items: ``(I + 1,)`` bool, items of the log.
        logged_users: number of users of the log.
        behaviors: number of behaviours.
    """

    items: np.ndarray
    users: np.ndarray
    longest: np.ndarray
    logged_items: np.ndarray
    logged_users: int
    behaviors: int


def known_to_training(
    engine: Engine, counts: SummaryCounts, *, users: int, items: int, segment_count: int
) -> Known:
    """Find what training knows, before histories are truncated, and count the samples.

    Args:
        engine: engine with ``log`` and ``samples``.
        counts: counts of the samples, which are added to.
        users, items: number of codes, including code 0.
        segment_count: number of segments of the log.
    """
    known_items, known_users, logged = np.zeros(items, bool), np.zeros(users, bool), np.zeros(items, bool)
    longest = np.zeros(segment_count, np.int32)
    logged_users = behaviors = 0
    for number in range(engine.partitions):
        samples = read_partition(engine, "samples", number, [*counts.columns, "segment"])
        splits = split_codes(samples)
        counts.add(samples, splits)
        train = splits == TRAIN
        known_items[samples["item"].to_numpy()[train]] = True
        known_users[samples["user"].to_numpy()[train]] = True
        np.maximum.at(
            longest, segments(samples)[train].astype(np.intp), samples["history_end"].to_numpy()[train]
        )
        log = read_partition(engine, "log", number, ["user", "segment", "item", "position"])
        item = log["item"].to_numpy()
        logged[item] = True
        known_items[item[log["position"].to_numpy() < longest[segments(log)]]] = True
        logged_users += len(np.unique(log["user"].to_numpy()))
        behaviors += len(log)
    known_items[0] = known_users[0] = False
    return Known(known_items, known_users, longest, logged, logged_users, behaviors)


def own_vocabularies(engine: Engine, known: Known, columns: FeatureColumns) -> dict[str, LearnedColumn]:
    """Learn the features of the behaviours from the histories of training samples."""

    def batches(column: str) -> Iterator[tuple[pd.Series, np.ndarray, None]]:
        for log in partitions(engine, "log", ["user", "segment", "position", column]):
            yield log[column].to_pandas(), log["position"].to_numpy() < known.longest[segments(log)], None

    return {
        name: learn_column(name, columns, partial(batches, f"own_{k}"))
        for k, name in enumerate(columns.own_columns)
    }


def feature_tables(
    tables: CanonicalTables,
    known: Known,
    ids: tuple[Vocabulary, Vocabulary],
    columns: FeatureColumns,
    *,
    context: Mapping[str, LearnedColumn],
    own: Mapping[str, LearnedColumn],
) -> FeatureTables:
    """Return the features of items and users, and the schema.

    Args:
        tables: tables of items and users.
        known: what training knows.
        ids: vocabularies of users and items.
        columns: feature columns.
        context: encodings of the context features.
        own: encodings of the features of behaviours.
    """
    none = np.zeros(0, np.int32)
    encoded = EncodedLog(*ids, np.zeros(len(ids[0]) + 1, np.int64), none, none, none.astype(np.int64), None)
    features = encode_features(
        tables, encoded, columns, known_items=known.items, known_users=known.users,
        context={name: column.coded() for name, column in context.items()},
        own={name: column.coded() for name, column in own.items()},
    )  # fmt: skip
    if not columns.sequences:
        return features
    arrays = sequence_arrays(columns, features, own)
    schemas = {name: of.schema for name, of in arrays.items()}
    return replace(features, schema=features.schema.model_copy(update={"sequences": schemas}))


def store_log(
    engine: Engine, folder: Path, features: FeatureTables, columns: FeatureColumns, own: Mapping[str, LearnedColumn], *,
    segment_count: int, users: int,
) -> None:  # fmt: skip
    """Write the arrays of the log and of its sequences into a folder, in the format of `logs.storage`.

    Args:
        engine: engine with ``log`` and ``sequence_<k>``.
        folder: new folder.
        features: features of the items, and the schema.
        columns: feature columns.
        own: encodings of the features of behaviours.
        segment_count: number of segments of the log.
        users: number of user codes, including code 0.
    """
    folder.mkdir()
    has_negatives = "negative" in engine.stored("log").columns
    schema = features.schema
    fields = _fields([*schema.shared, *schema.own], features, times=GAP in schema.derived)
    if has_negatives:
        fields["negatives"] = (_INT32, lambda block: block["negative"])
    _write_log(engine, "log", folder, "", fields, own, segment_count, keep=["negative"] * has_negatives)
    for k, (name, of) in enumerate(sequence_arrays(columns, features, own).items()):
        fields = _fields(of.schema.behavior, features, times=of.times)
        _write_log(engine, f"sequence_{k}", folder, f"sequence.{name}.", fields, own, users, keep=[CLICKED])


def _fields(fields: "tuple[Field, ...] | list[Field]", features: FeatureTables, *, times: bool) -> dict:
    """Return the arrays of a log: features of its items, and columns of its own."""
    arrays: dict = {}
    for field in fields:
        if field.derived:
            continue
        codes = features.items.get(field.name)
        if codes is None:
            arrays[f"field.{field.name}"] = (_INT32, lambda block, name=field.name: block[name])
        else:
            arrays[f"field.{field.name}"] = (_INT32, lambda block, codes=codes: codes[block["item"]])
    return arrays | ({"times": (_INT64, lambda block: block["time"])} if times else {})


def _write_log(
    engine: Engine, table: str, folder: Path, prefix: str, fields: Fields, own: Mapping[str, LearnedColumn], segment_count: int, *,
    keep: list[str],
) -> None:  # fmt: skip
    runs = LogRuns(engine.folder / f"runs_{table}", segment_count)
    encoded = {f"own_{k}": name for k, name in enumerate(own) if f"field.{name}" in fields}
    plain = ["item", *keep, *(["time"] if "times" in fields else [])]
    for log in partitions(engine, table, ["user", "segment", "position", *plain, *encoded]):
        ordered = by_segment(log)
        values = {name: ordered[name].to_numpy() for name in plain if name in ordered.column_names}
        values |= {name: own[name].encode(ordered[column].to_pandas()) for column, name in encoded.items()}
        runs.add(segments(ordered), values)
    check_fits_int32("behaviors: behaviours of one user", int(runs.lengths.max(initial=0)))
    runs.write(folder, prefix, fields)


def unknown_codes(
    features: FeatureTables, known: Known, context: Mapping[str, LearnedColumn]
) -> dict[str, tuple[str, np.ndarray]]:
    """Return the shares of the summary: ``{name: (column of the samples, bool by code)}``."""

    def unknown(name: str, codes: np.ndarray) -> np.ndarray:
        return ~features.value_sets[name].known[codes] if name in features.value_sets else codes == 0

    schema = features.schema
    shares = {"unknown_users": ("user", ~known.users), "unknown_items": ("item", ~known.items)}
    fields = {of.name: ("item", unknown(of.name, features.items[of.name])) for of in schema.item}
    fields |= {of.name: ("user", unknown(of.name, features.users[of.name])) for of in schema.profile}
    fields |= {name: (name, column.unknown) for name, column in context.items()}
    return shares | {f"unknown_{name}": of for name, of in fields.items() if f"unknown_{name}" not in shares}
