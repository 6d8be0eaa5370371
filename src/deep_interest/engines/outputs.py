"""The behaviour log, the features and the summary, made in this process from what an engine has stored.

The tables are read one partition after another. In memory are arrays of the users, the items, and one array of all behaviours
for each field of the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deep_interest.engines.engine import PARTITION, Engine
from deep_interest.engines.own_fields import OwnVocabulary
from deep_interest.engines.summary import SummaryCounts, split_codes
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoded_log import EncodedLog
from deep_interest.logs.encoding import CodedColumn, FeatureTables, behavior_log, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocols import TRAIN
from deep_interest.logs.schema import Field
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabulary, Vocabulary, check_fits_int32


@dataclass(frozen=True)
class Known:
    """What training knows, and the shape of the log.

    Attributes:
        items: ``(I + 1,)`` bool, candidates of training samples and items in their histories.
        users: ``(U + 1,)`` bool, users with a training sample.
        offsets: ``(U + 1,)`` segments of the log.
        logged_items: ``(I + 1,)`` bool, items of the log.
        own: vocabularies of the features of behaviours.
    """

    items: np.ndarray
    users: np.ndarray
    offsets: np.ndarray
    logged_items: np.ndarray
    own: dict[str, FieldVocabulary]


def known_to_training(engine: Engine, users: int, items: int, columns: FeatureColumns) -> Known:
    """Find what training knows, before histories are truncated.

    Args:
        engine: engine with ``log`` and ``samples``.
        users, items: number of codes, including code 0.
        columns: feature columns.
    """
    known_items, known_users, logged = np.zeros(items, bool), np.zeros(users, bool), np.zeros(items, bool)
    lengths, longest = np.zeros(users, np.int64), np.zeros(users, np.int32)
    own = {name: OwnVocabulary(name, columns) for name in columns.own_columns}
    for log, samples in _partitions(engine):
        train = split_codes(samples) == TRAIN
        user, item = (samples[name].to_numpy()[train] for name in ("user", "item"))
        np.maximum.at(longest, user, samples["history_end"].to_numpy()[train])
        known_items[item] = known_users[user] = True
        logged_user, logged_item = log["user"].to_numpy(), log["item"].to_numpy()
        lengths += np.bincount(logged_user, minlength=users)
        logged[logged_item] = True
        in_history = log["position"].to_numpy() < longest[logged_user]
        known_items[logged_item[in_history]] = True
        for k, vocabulary in enumerate(own.values()):
            vocabulary.add(log[f"own_{k}"].to_pandas(), in_history)
    known_items[0] = known_users[0] = False
    check_fits_int32("behaviors: behaviours of one user", int(lengths.max(initial=0)))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Known(known_items, known_users, offsets, logged, {name: of.learned() for name, of in own.items()})


def log_and_features(
    engine: Engine,
    tables: CanonicalTables,
    known: Known,
    ids: tuple[Vocabulary, Vocabulary],
    columns: FeatureColumns,
    context: dict[str, FieldVocabulary],
) -> tuple[BehaviorLog, FeatureTables]:
    """Return the behaviour log and the features.

    Args:
        engine: engine with ``log``.
        tables: tables of items and users.
        known: what training knows.
        ids: vocabularies of users and items.
        columns: feature columns.
        context: vocabularies of the context features.
    """
    item, time = np.empty(known.offsets[-1], np.int32), np.empty(known.offsets[-1], np.int64)
    codes = {name: np.empty(known.offsets[-1], np.int32) for name in columns.own_columns}
    for log, _ in _partitions(engine):
        rows = known.offsets[log["user"].to_numpy()] + log["position"].to_numpy()
        item[rows], time[rows] = log["item"].to_numpy(), log["time"].to_numpy()
        for k, name in enumerate(codes):
            codes[name][rows] = known.own[name].encode(log[f"own_{k}"].to_pandas())
    own = {
        name: CodedColumn(Field(name=name, size=len(known.own[name].vocabulary)), of)
        for name, of in codes.items()
    }
    fields = {
        name: CodedColumn(Field(name=name, size=len(of.vocabulary)), np.zeros(0, np.int32))
        for name, of in context.items()
    }
    encoded = EncodedLog(*ids, known.offsets, np.zeros(0, np.int32), item, time, None)
    features = encode_features(
        tables, encoded, columns, known_items=known.items, known_users=known.users, context=fields, own=own
    )
    return behavior_log(encoded, features, own), features


def counted(engine: Engine, known: Known, features: FeatureTables) -> SummaryCounts:
    """Return the counts of the samples."""
    schema = features.schema

    def unknown(name: str, codes: np.ndarray) -> np.ndarray:
        return ~features.value_sets[name].known[codes] if name in features.value_sets else codes == 0

    flags = {of.name: ("item", unknown(of.name, features.items[of.name])) for of in schema.item}
    flags |= {of.name: ("user", unknown(of.name, features.users[of.name])) for of in schema.profile}
    flags |= {of.name: (of.name, np.arange(of.size) == 0) for of in schema.context}
    counts = SummaryCounts(
        len(known.users),
        len(known.items),
        unknown_users=~known.users,
        unknown_items=~known.items,
        unknown_fields=flags,
    )
    for _, samples in _partitions(engine):
        counts.add(samples)
    return counts


def _partitions(engine: Engine) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield log and samples of each partition."""
    for number in range(engine.partitions):
        yield _read(engine, "log", number), _read(engine, "samples", number)


def _read(engine: Engine, name: str, number: int) -> pa.Table:
    folder = engine.folder / name / f"{PARTITION}={number}"
    if folder.exists():
        return pq.read_table(folder, partitioning=None)
    file = next((engine.folder / name).glob(f"{PARTITION}=*/*.parquet"))
    return pq.read_schema(file).empty_table()
