"""Some days as training data and a held-out day, in codes that never change."""

from collections.abc import Sequence

from deep_interest.logs.encoding import FeatureColumns, behavior_log, encode_features, encode_log
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.protocols import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.retraining.days import impressions_of
from deep_interest.training.runs import Data


def encode_window(
    tables: CanonicalTables,
    *,
    train: Sequence[str],
    held_out: str,
    protocol: ProtocolParameters,
    features: FeatureColumns,
    vocabularies: FieldVocabularies,
) -> Data:
    """Log, features and samples of a window of days; the held-out day is the test split, and there is no validation.

    Args:
        tables: of all days whose behaviours make the histories.
        train: days whose impressions train.
        held_out: the day that judges; its values teach no vocabulary.
        protocol: the dataset's, ``by_day``.
        features: the feature columns.
        vocabularies: of the version before; they grow by what the training days bring.
    """
    tables = impressions_of(tables, [*train, held_out])
    protocol = protocol.model_copy(
        update={"validation_days": 0, "test_days": 1, "train_days": None, "last_day": None}
    )
    users = Vocabulary.fit(tables.behaviors["user"], tables.impressions["user"])
    log = encode_log(tables, users=users, items=Vocabulary.fit(tables.items["item"]))
    made = impression_samples(tables.impressions, log, protocol, features=features, vocabularies=vocabularies)
    coded = encode_features(
        tables, log, features, known_items=made.known_items, known_users=made.known_users,
        context=made.context, vocabularies=vocabularies,
    )  # fmt: skip
    return Data(behavior_log(log, coded), coded, made.samples.frame().assign(**made.columns))
