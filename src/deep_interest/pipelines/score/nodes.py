"""Score users × candidates with the version that serves."""

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
    """The champion's scores as a stream; all users of the days and all their items where no tables say otherwise."""
    from deep_interest.retraining.scoring import encode_request, score_with

    champion = registry.champion()
    if champion is None:
        raise InputError(f"{registry.folder}: no version serves yet; run the retrain pipeline first")
    back = None if retraining.history_days is None else -retraining.history_days - 1
    tables = read_days(days, list_days(days)[back:], reading_of(settings))
    coded = encode_request(
        tables, _table(users), _table(candidates), settings.features, retraining.scoring, champion
    )
    return score_with(champion, coded, retraining.scoring, run)


def _table(path: Path | None) -> pd.DataFrame | None:
    return None if path is None else pd.read_parquet(path)
