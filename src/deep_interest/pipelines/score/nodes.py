"""Score users and candidates with the champion, the model version that serves."""

import logging
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from deep_interest.errors import InputError
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.retrain.nodes import reading_of
from deep_interest.retraining.days import list_days, read_days
from deep_interest.retraining.parameters import RetrainingParameters, ScoringParameters
from deep_interest.serving.pairs import Scores
from deep_interest.serving.registry import Registry
from deep_interest.training.parameters import RunParameters

logger = logging.getLogger(__name__)


def make_score(dataset: str, model: str) -> Callable[..., Scores]:
    """Return the node function that scores users and candidates of an experiment."""

    def score(
        days: Path, registry: Registry, users: Path | None, candidates: Path | None, settings: DatasetParameters,
        retraining: RetrainingParameters, run: RunParameters,
    ) -> Scores:  # fmt: skip
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
            raise InputError(_no_champion(registry, f"{dataset}.{model}"))
        first_day = None if retraining.history_days is None else -retraining.history_days - 1
        tables = read_days(days, list_days(days)[first_day:], reading_of(settings))
        scoring = scoring_parameters(settings, retraining)
        inputs = encode_request(
            tables, _table(users), _table(candidates), settings.features, scoring, champion
        )
        return score_with(champion, inputs, scoring, run)

    return score


def scoring_parameters(settings: DatasetParameters, retraining: RetrainingParameters) -> ScoringParameters:
    """Return the parameters of scoring with the dataset's context values, overridden by ``retraining.scoring.context``."""
    context = settings.scoring.context | retraining.scoring.context
    return retraining.scoring.model_copy(update={"context": context})


def _no_champion(registry: Registry, experiment: str) -> str:
    versions = registry.names()
    advice = (
        f"the gate refused its versions ({len(versions)}): list them with `deep-interest registry list {experiment}`, or "
        f"promote one regardless with `deep-interest registry promote {experiment} {versions[-1]}`"
        if versions
        else f"train one with `kedro run --pipelines=retrain.{experiment}`"
    )
    return f"{registry.folder}: no version of {experiment} is in production; {advice}"


def _table(path: Path | None) -> pd.DataFrame | None:
    return None if path is None else pd.read_parquet(path)
