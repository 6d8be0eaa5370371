"""Batch scoring with a version of the registry: its vocabularies and parameters, and current histories."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.logs.behavior_log import BehaviorLog
from deep_interest.logs.encoded_log import EncodedLog, encode_log
from deep_interest.logs.encoding import (
    CodedColumn,
    FeatureTables,
    behavior_log,
    code_column,
    encode_behaviors,
    encode_features,
)
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.retraining.parameters import ScoringParameters
from deep_interest.retraining.window import require_one_sequence
from deep_interest.serving.pairs import Scores, ScoringRequest, score_pairs
from deep_interest.serving.version import Version
from deep_interest.training.data import FeatureStore
from deep_interest.training.parameters import RunParameters, TrainingOptions
from deep_interest.training.runs import prepare_device

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoringInput:
    """The current log and a scoring request in the codes of a version.

    Attributes:
        log: behaviours of all users.
        features: feature codes of items and users.
        request: users and candidates.
    """

    log: BehaviorLog
    features: FeatureTables
    request: ScoringRequest


@dataclass(frozen=True)
class CurrentLog:
    """The current log in the codes of a version.

    Attributes:
        log: encoded behaviours.
        features: feature codes of items and users.
        context: encoded context features.
        own: encoded features of the behaviours themselves.
        vocabularies: vocabularies of the version; they do not learn.
    """

    log: EncodedLog
    features: FeatureTables
    context: dict[str, CodedColumn]
    own: dict[str, CodedColumn]
    vocabularies: FieldVocabularies

    @property
    def behaviors(self) -> BehaviorLog:
        """The behaviours with the fields of the schema."""
        return behavior_log(self.log, self.features, self.own)


def encode_current_log(
    tables: CanonicalTables, columns: FeatureColumns, version: Version, context: Mapping[str, pd.Series]
) -> CurrentLog:
    """Encode the current log with the vocabularies of a version.

    Args:
        tables: tables of the days whose behaviours are part of histories.
        columns: feature columns.
        version: version whose vocabularies are used.
        context: values of each context feature.
    """
    require_one_sequence(columns)
    vocabularies = FieldVocabularies(version.vocabularies().fields, frozen=True)
    log = encode_log(
        tables, users=Vocabulary.fit(tables.behaviors["user"]), items=Vocabulary.fit(tables.items["item"])
    )
    coded = {name: code_column(vocabularies, name, context[name], columns) for name in columns.context}
    own = encode_behaviors(tables.behaviors, columns, vocabularies=vocabularies)
    features = encode_features(tables, log, columns, context=coded, own=own, vocabularies=vocabularies)
    return CurrentLog(log, features, coded, own, vocabularies)


def encode_request(
    tables: CanonicalTables,
    users: pd.DataFrame | None,
    candidates: pd.DataFrame | None,
    features: FeatureColumns,
    scoring: ScoringParameters,
    champion: Version,
) -> ScoringInput:
    """Encode the current log and a scoring request.

    Args:
        tables: tables of the days whose behaviours are part of histories.
        users: ``user`` [and context columns]; all users of the log if None.
        candidates: ``item`` [, ``bid``]; all items with a bid of 1 if None.
        features: feature columns.
        scoring: parameters, with the values of context features that the users' table lacks.
        champion: version whose vocabularies are used.

    Raises:
        InputError: a column is missing, an id is repeated, or a bid is not a positive number.
    """
    if users is None:
        users = pd.DataFrame({"user": np.sort(tables.behaviors["user"].unique())})
    if candidates is None:
        candidates = tables.items[["item"]]
    _check(users, "users", "user")
    _check(candidates, "candidates", "item")
    current = encode_current_log(
        tables, features, champion, {name: _context(users, name, scoring) for name in features.context}
    )
    log, context = current.log, current.context
    for name, column in context.items():
        if unknown := int(column.unknown.sum()):
            logger.warning(
                "context feature %s: version %s has not seen the value of %s of %s users in training; scored as unknown",
                name, champion.id, f"{unknown:,}", f"{len(users):,}",
            )  # fmt: skip
    user_codes, item_codes = log.users.encode(users["user"]), log.items.encode(candidates["item"])
    for name, codes in (("users without behaviours", user_codes), ("unknown candidates", item_codes)):
        if (codes == 0).any():
            logger.warning(
                "%s: %s of %s, scored as unknown", name, f"{(codes == 0).sum():,}", f"{len(codes):,}"
            )
    bids = candidates["bid"].to_numpy(np.float64) if "bid" in candidates else np.ones(len(candidates))
    if not (bids > 0).all():
        raise InputError(f"candidates.bid: found {bids[~(bids > 0)][0]}, expected numbers above 0")
    request = ScoringRequest(
        users["user"].reset_index(drop=True), user_codes, {name: column.codes for name, column in context.items()}, candidates["item"].reset_index(drop=True),
        item_codes, bids,
    )  # fmt: skip
    return ScoringInput(current.behaviors, current.features, request)


def score_with(
    champion: Version, inputs: ScoringInput, scoring: ScoringParameters, run: RunParameters
) -> Scores:
    """Score a request with the champion, as a stream."""
    device = prepare_device(run)
    blocks = score_pairs(
        champion.model().to(device), FeatureStore.build(inputs.log, inputs.features, device), inputs.request,
        version=champion.id, max_len=TrainingOptions.model_validate(champion.manifest["training"]).max_len,
        gamma=scoring.gamma, top_k=scoring.top_k, pairs_at_once=scoring.pairs_at_once,
        batch_size=run.evaluation_batch_size, calibration=champion.calibration(),
    )  # fmt: skip
    return Scores(champion.id, blocks, champion.precision)


def _check(table: pd.DataFrame, name: str, key: str) -> None:
    if key not in table:
        raise InputError(f"{name}: column {key} not found; the table has {', '.join(map(str, table))}")
    if table[key].isna().any() or table[key].duplicated().any():
        raise InputError(f"{name}.{key}: expected each id once, found a missing or repeated id")


def _context(users: pd.DataFrame, name: str, scoring: ScoringParameters) -> pd.Series:
    if name in users:
        return users[name]
    if name not in scoring.context:
        raise InputError(
            f"context feature {name}: the users' table has no such column; add it, set scoring.context.{name} in the "
            f"dataset's block, or set retraining.scoring.context.{name} for this run"
        )
    return pd.Series([scoring.context[name]] * len(users))
