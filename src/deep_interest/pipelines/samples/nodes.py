"""Encode the canonical tables and derive samples by the dataset's protocol."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.engines.engine_input import EngineInput
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.content_order import in_content_order
from deep_interest.logs.coverage import unknown_fields
from deep_interest.logs.encoded_log import EncodedLog, encode_log
from deep_interest.logs.encoding import (
    CodedColumn,
    FeatureTables,
    behavior_log,
    encode_behaviors,
    encode_features,
)
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.protocols import catalogue_samples, target_behaviors
from deep_interest.logs.samples import known_to_training, training_histories
from deep_interest.logs.sequences import SampleTimes, encode_sequences, shown_negatives
from deep_interest.logs.summary import samples_summary
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import Vocabulary
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.samples.neighbours import with_neighbours
from deep_interest.pipelines.samples.on_engine import samples_on_engine, user_ids_of

logger = logging.getLogger(__name__)

Outputs = tuple[BehaviorLog | Path, FeatureTables, pd.DataFrame | Path, pd.DataFrame]
"""Log, features, samples (on an engine the folders of log and samples) and summary."""
_NO_EVENTS = pd.DataFrame()  # behaviours that are on an engine


def build_vocabularies(
    behaviors: pd.DataFrame | EngineInput,
    items: pd.DataFrame,
    impressions: pd.DataFrame | EngineInput | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the user and item ids; the code of an id is its row index plus 1."""
    if isinstance(behaviors, EngineInput):
        assert not isinstance(impressions, pd.DataFrame)  # an environment reads both on its engine
        return user_ids_of(behaviors, impressions), _table(Vocabulary.fit(items["item"]))
    assert not isinstance(impressions, EngineInput)
    user_columns = [behaviors["user"]] if impressions is None else [behaviors["user"], impressions["user"]]
    return _table(Vocabulary.fit(*user_columns)), _table(Vocabulary.fit(items["item"]))


def samples_from_behaviors(
    behaviors: pd.DataFrame | EngineInput, items: pd.DataFrame, user_ids: pd.DataFrame, item_ids: pd.DataFrame,
    left_out: dict[str, Any], dataset: DatasetParameters,
) -> Outputs:  # fmt: skip
    """Return log, features, samples and their summary for a dataset without impressions."""
    if isinstance(behaviors, EngineInput):
        return samples_on_engine(
            behaviors, None, CanonicalTables(_NO_EVENTS, items), user_ids, item_ids, left_out, dataset
        )
    tables = _ordered(CanonicalTables(behaviors, items), user_ids, item_ids, dataset.protocol)
    log = encode_log(tables, users=_vocabulary(user_ids), items=_vocabulary(item_ids))
    log = replace(log, target=target_behaviors(tables.behaviors, dataset.protocol))
    samples = catalogue_samples(log, dataset.protocol)
    in_history = training_histories(log, samples)
    known_items, known_users = known_to_training(log, samples, in_history)
    own = encode_behaviors(tables.behaviors, dataset.features, known=in_history)
    features = encode_features(
        tables, log, dataset.features, known_items=known_items, known_users=known_users, own=own
    )
    summary = samples_summary(
        samples, log, left_out, known_users=known_users, known_items=known_items,
        unknown_fields=unknown_fields(samples, features),
    )  # fmt: skip
    times = SampleTimes(samples.user, samples.time, dataset.protocol.calendar.days(samples.time))
    made = _with_sequences(dataset, log, tables, features, own, times)
    return *_with_neighbours(dataset, made[0], made[1], samples.frame().assign(**made[2])), summary


def samples_from_impressions(
    behaviors: pd.DataFrame | EngineInput, items: pd.DataFrame, user_ids: pd.DataFrame, item_ids: pd.DataFrame,
    left_out: dict[str, Any], dataset: DatasetParameters, users: pd.DataFrame,
    impressions: pd.DataFrame | EngineInput,
) -> Outputs:  # fmt: skip
    """Return log, features, samples and their summary for a dataset with impressions."""
    if isinstance(behaviors, EngineInput):
        assert isinstance(impressions, EngineInput)
        tables = CanonicalTables(_NO_EVENTS, items, users)
        return samples_on_engine(behaviors, impressions, tables, user_ids, item_ids, left_out, dataset)
    assert not isinstance(impressions, EngineInput)
    tables = CanonicalTables(behaviors, items, users, impressions)
    tables = _ordered(tables, user_ids, item_ids, dataset.protocol)
    log = encode_log(tables, users=_vocabulary(user_ids), items=_vocabulary(item_ids))
    result = impression_samples(tables.shown, log, dataset.protocol, features=dataset.features)
    own = encode_behaviors(tables.behaviors, dataset.features, known=training_histories(log, result.samples))
    features = encode_features(
        tables, log, dataset.features, known_items=result.known_items, known_users=result.known_users,
        context=result.context, own=own,
    )  # fmt: skip
    frame = result.samples.frame().assign(**result.columns)
    summary = samples_summary(
        result.samples, log, left_out, known_users=result.known_users, known_items=result.known_items,
        unknown_fields=unknown_fields(result.samples, features, result.context),
    )  # fmt: skip
    for warning in result.uncovered:
        logger.warning("%s", warning)
    made = result.samples
    days = result.day if result.day is not None else np.zeros(len(made.time), np.int64)
    behaviors_log, features, ranges = _with_sequences(
        dataset, log, tables, features, own, SampleTimes(made.user, made.time, days)
    )
    return *_with_neighbours(dataset, behaviors_log, features, frame.assign(**ranges)), summary


def _ordered(
    tables: CanonicalTables, user_ids: pd.DataFrame, item_ids: pd.DataFrame, protocol: ProtocolParameters
) -> CanonicalTables:
    """Return the tables in the order of their rows, or with hashed sampling in one that depends on their content alone."""
    if not protocol.hashed:
        return tables
    users, items = _vocabulary(user_ids), _vocabulary(item_ids)
    return in_content_order(tables, users=users, items=items, seed=protocol.seed)


def _with_sequences(
    dataset: DatasetParameters,
    log: EncodedLog,
    tables: CanonicalTables,
    features: FeatureTables,
    own: dict[str, CodedColumn],
    samples: SampleTimes,
) -> tuple[BehaviorLog, FeatureTables, dict[str, np.ndarray]]:
    """Return the behaviour log with its further sequences, the features with their schemas, and what each sample sees of them."""
    protocol = dataset.protocol
    behaviors = behavior_log(log, features, own)
    if protocol.auxiliary_negatives == "shown":
        behaviors = replace(
            behaviors,
            negatives=shown_negatives(log, tables.shown, seed=protocol.seed, hashed=protocol.hashed),
        )
    if not dataset.features.sequences:
        return behaviors, features, {}
    sequences = encode_sequences(
        dataset.features, log, tables.behaviors, tables.impressions,
        features=features, own=own, samples=samples, calendar=protocol.calendar,
    )  # fmt: skip
    schema = features.schema.model_copy(update={"sequences": sequences.schemas})
    return replace(behaviors, sequences=sequences.logs), replace(features, schema=schema), sequences.columns


def _with_neighbours(
    dataset: DatasetParameters, log: BehaviorLog, features: FeatureTables, samples: pd.DataFrame
) -> tuple[BehaviorLog, FeatureTables, pd.DataFrame]:
    if dataset.features.neighbours is None:
        return log, features, samples
    return log, *with_neighbours(log, features, samples, max_len=dataset.features.neighbours)


def _table(vocabulary: Vocabulary) -> pd.DataFrame:
    return pd.DataFrame({"id": vocabulary.values})


def _vocabulary(table: pd.DataFrame) -> Vocabulary:
    return Vocabulary(pd.Index(table["id"]))
