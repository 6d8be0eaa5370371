"""Score users and candidates with the champion, the model version that serves."""

import logging
from pathlib import Path

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.days import list_days, read_days
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.serving.pairs import Scores
from deep_interest.serving.registry import Registry
from deep_interest.training.parameters import RunParameters

logger = logging.getLogger(__name__)


def score(
    days: Path,
    registry: Registry,
    users: Path | None,
    candidates: Path | None,
    settings: DatasetParameters,
    retraining: RetrainingParameters,
    run: RunParameters,
) -> Scores:
    """Return the champion's scores as a stream.

    Args:
        days: folder with one folder of tables per day.
        registry: model registry.
        users: Parquet table of users to score, or None for all users of the days.
        candidates: Parquet table of candidate items, or None for all items of the days.
        settings: parameters of the dataset.
        retraining: parameters of retraining and scoring.
        run: parameters of the run.

    Raises:
        InputError: the registry has no champion.
    """
    from deep_interest.retraining.scoring import encode_request, score_with

    champion = registry.champion()
    if champion is None:
        raise InputError(
            f"{registry.folder}: the registry has no champion yet; run the retrain pipeline first"
        )
    first_day = None if retraining.history_days is None else -retraining.history_days - 1
    tables = read_days(days, list_days(days)[first_day:], reading_of(settings))
    inputs = encode_request(
        tables, _table(users), _table(candidates), settings.features, retraining.scoring, champion
    )
    return score_with(champion, inputs, retraining.scoring, run)


def _table(path: Path | None) -> pd.DataFrame | None:
    return None if path is None else pd.read_parquet(path)
