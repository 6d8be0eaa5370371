"""Encode a window of training days and a held-out day with the vocabularies of the champion, extended by new values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deep_interest.errors import InputError
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.encoding import behavior_log, encode_behaviors, encode_features
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.samples import TRAIN, Samples, training_histories
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.retraining.days import day_number, impressions_of
from deep_interest.training.runs import Data


@dataclass(frozen=True)
class Window(Data):
    """Encoded window of days.

    Attributes:
        negatives_kept: share of the negatives of the training days that are samples; below 1 with ``protocol.list_negatives``. All
            impressions of the held-out day are samples.
        delayed_clicks: how complete the labels are, as JSON values (`delayed_clicks.retraining_labels`); None if the log does not say
            when clicks happened.
    """

    negatives_kept: float = 1.0
    delayed_clicks: dict[str, Any] | None = None


def require_one_sequence(features: FeatureColumns, protocol: ProtocolParameters | None = None) -> None:
    """Check that a dataset uses nothing that retraining and scoring lack.

    Raises:
        InputError: it has further sequences of behaviours, scores of neighbours, or histories of a number of days.
    """
    if features.sequences:
        raise InputError(
            f"features.sequences: retraining and scoring read one sequence of behaviours; remove {', '.join(features.sequences)}"
        )
    if features.neighbours is not None:
        raise InputError(
            "features.neighbours: retraining and scoring do not compute the scores of neighbours; remove features.neighbours"
        )
    if protocol is not None and protocol.history_days is not None:
        raise InputError(
            "protocol.history_days: retraining bounds histories by retraining.history_days; remove protocol.history_days"
        )


def until(tables: CanonicalTables, day: str) -> CanonicalTables:
    """Select the log up to the end of a day."""
    number = day_number(day)
    done, shown = tables.behaviors, tables.shown
    return replace(
        tables,
        behaviors=done[done["day"] <= number].reset_index(drop=True),
        impressions=shown[shown["day"] <= number].reset_index(drop=True),
    )


def encode_window(
    tables: CanonicalTables,
    *,
    train: Sequence[str],
    held_out: str,
    protocol: ProtocolParameters,
    features: FeatureColumns,
    vocabularies: FieldVocabularies,
) -> Window:
    """Encode log, features and samples of a window of days; the held-out day is the test split, there is no validation split.

    Args:
        tables: tables of all days whose behaviours are part of histories.
        train: training days.
        held_out: the held-out day; its values are not added to the vocabularies.
        protocol: protocol of the dataset, ``by_day``.
        features: feature columns.
        vocabularies: vocabularies of the previous version, extended in place by the values of the training days.
    """
    require_one_sequence(features, protocol)
    tables = impressions_of(tables, [*train, held_out])
    protocol = protocol.model_copy(
        update={"validation_days": 0, "test_days": 1, "train_days": None, "last_day": None}
    )
    users = Vocabulary.fit(tables.behaviors["user"], tables.shown["user"])
    log = encode_log(tables, users=users, items=Vocabulary.fit(tables.items["item"]))
    made = impression_samples(tables.impressions, log, protocol, features=features, vocabularies=vocabularies)
    own = encode_behaviors(
        tables.behaviors, features, known=training_histories(log, made.samples), vocabularies=vocabularies
    )
    coded = encode_features(
        tables, log, features, known_items=made.known_items, known_users=made.known_users,
        context=made.context, own=own, vocabularies=vocabularies,
    )  # fmt: skip
    samples = made.samples.frame().assign(**made.columns)
    return Window(behavior_log(log, coded, own), coded, samples, _negatives_kept(made.samples))


def _negatives_kept(samples: Samples) -> float:
    """Return the share of the training days' negatives that are samples: ``list_negatives`` is all that leaves impressions out."""
    kept = int(((samples.label == 0) & (samples.split == TRAIN)).sum())
    return kept / (kept + sum(samples.left_out.values())) if kept else 1.0
