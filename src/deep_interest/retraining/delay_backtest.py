"""What clicks that have not arrived cost: retrain on past nights with each choice, and evaluate on final labels."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import PROBABILITY_CLIP, per_user_auc
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.days import day_number
from deep_interest.retraining.delayed_clicks import for_training, night_after, ticks_of_hours
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.retraining.paired_ratios import RatioOfSums
from deep_interest.retraining.parameters import DelayedClicksParameters, RetrainingParameters
from deep_interest.retraining.rows import assign_rows, with_rows
from deep_interest.retraining.window import encode_window, until
from deep_interest.training.runs import Experiment

logger = logging.getLogger(__name__)

METRICS = ("gauc", "logloss", "calibration")


@dataclass(frozen=True)
class Choice:
    """What to do about clicks that may still come.

    Attributes:
        wait_hours: impressions younger than this are left out of training.
        correct: whether the likelihood takes into account that a click may still come.
        final: whether training sees the final labels, which no retraining can: the oracle.
    """

    wait_hours: int = 0
    correct: bool = False
    final: bool = False

    @property
    def name(self) -> str:
        """Name in tables."""
        if self.final:
            return "oracle: final labels"
        wait = f"wait {self.wait_hours} h" if self.wait_hours else "at once"
        return f"{wait}, corrected" if self.correct else wait


ORACLE = Choice(final=True)
AT_ONCE = Choice()


def choices_of(parameters: DelayedClicksParameters) -> list[Choice]:
    """Return the choices that the backtest compares: each wait without and with the correction, and the oracle."""
    waits = dict.fromkeys([0, *parameters.candidates])
    return [*map(Choice, waits), *(Choice(hours, correct=True) for hours in waits), ORACLE]


@dataclass(frozen=True)
class Night:
    """The predictions of all choices on one day.

    Attributes:
        day: the day, on which no model was trained.
        seed: seed of the fits.
        users, labels: ``(n,)`` number of the user, and final label of each impression.
        scores: ``{choice: (n,)}`` predicted CTR.
        facts: ``{choice: counts}`` of the training rows, see `delayed_clicks.for_training`.
    """

    day: str
    seed: int
    users: np.ndarray
    labels: np.ndarray
    scores: dict[str, np.ndarray]
    facts: dict[str, dict[str, float]]


@dataclass(frozen=True)
class NightlyFits:
    """How the model of a night is trained: from scratch, on the last ``window_days``.

    Attributes:
        experiment: the experiment.
        retraining: window, training options and rules for rows.
        protocol, features: protocol and feature columns of the dataset.
        time_zone: time zone in which days begin at midnight.
        workspace: folder of the running fits.
    """

    experiment: Experiment
    retraining: RetrainingParameters
    protocol: ProtocolParameters
    features: FeatureColumns
    time_zone: str
    workspace: Path

    def scores(
        self, tables: CanonicalTables, days: Sequence[str], choice: Choice, seed: int
    ) -> tuple[np.ndarray, dict[str, float]]:
        """Train with a choice on the night before the last of some days, and predict the last one.

        Args:
            tables: log up to the last of the days, with the final labels.
            days: days of the window and, last, the held-out day.
            choice: what to do about clicks that may still come.
            seed: seed of the fit.

        Returns:
            ``(n,)`` predicted CTR of the impressions of the held-out day, and the counts of the training rows.
        """
        *train, held_out = days
        facts: dict[str, float] = {}
        if not choice.final:
            night = night_after(tables, train[-1], self.time_zone)
            seen = for_training(
                tables, night, held_out=held_out, wait_hours=choice.wait_hours, correct=choice.correct
            )
            tables, facts = seen.tables, seen.facts
        vocabularies = FieldVocabularies()
        data = encode_window(
            tables, train=train, held_out=held_out, protocol=self.protocol, features=self.features, vocabularies=vocabularies
        )  # fmt: skip
        rows = assign_rows(
            tables, self.features, self.retraining.rows, vocabularies, held_out=held_out, before=None
        )
        fitted = fit_challenger(
            self.experiment, data, overrides=dict(self.retraining.training), seed=seed,
            state_file=self.workspace / f"{choice.name.replace(' ', '_')}.pt", rows=rows,
        )  # fmt: skip
        model = fitted.model(self.experiment.model)
        own = with_rows(data, rows)
        return held_out_scores(model, fitted.schema, own, self.experiment, fitted.training), facts


def days_to_judge(log: CanonicalTables, days: Sequence[str], fits: NightlyFits, *, warm_up: int) -> list[str]:
    """Return the days to evaluate: those after the warm-up whose labels are complete at the end of the log.

    Args:
        log: log.
        days: valid days, in order.
        fits: how a model is trained.
        warm_up: number of first days that only train.

    Raises:
        InputError: there is none.
    """
    parameters = fits.retraining.delayed_clicks
    warm_up = max(warm_up, -(-parameters.candidates[-1] // 24) + 1)
    night = night_after(log, days[-1], fits.time_zone)
    complete = ticks_of_hours(log, parameters.complete_hours)
    judged = [day for day in days[warm_up:] if night_after(log, day, fits.time_zone) + complete <= night]
    if not judged:
        raise InputError(
            f"retraining.delayed_clicks.complete_hours is {parameters.complete_hours}: of {len(days)} days, none after the first {warm_up} has "
            "complete labels; provide more days, or reduce complete_hours or backtest.warm_up_days"
        )
    return judged


def replay_nights(
    log: CanonicalTables, days: Sequence[str], judged: Iterable[str], choices: Sequence[Choice], fits: NightlyFits, *, seeds: Sequence[int]
) -> Iterator[Night]:  # fmt: skip
    """Train with each choice on each night, with what was known then, and predict the next day.

    Args:
        log: log with final labels.
        days: valid days, in order.
        judged: days to predict; not the first one.
        choices: what to do about clicks that may still come.
        fits: how a model is trained.
        seeds: seeds of the fits.
    """
    ids = pd.Index(log.shown["user"].unique()).sort_values()
    for day in judged:
        number = days.index(day)
        window = days[max(0, number - fits.retraining.window_days) : number + 1]
        tables = until(log, day)
        held_out = tables.shown[tables.shown["day"] == day_number(day)]
        users, labels = ids.get_indexer(held_out["user"]), held_out["label"].to_numpy()
        for seed in seeds:
            scores, facts = {}, {}
            for choice in choices:
                scores[choice.name], facts[choice.name] = fits.scores(tables, window, choice, seed)
            night = Night(day, seed, users, labels, scores, facts)
            logger.info("%s, seed %d: %s", day, seed, _log_losses(night))
            yield night


def metric_sums(nights: Sequence[Night], choice: str) -> dict[str, RatioOfSums]:
    """Return GAUC, log loss and calibration (predicted over observed clicks) of a choice over nights and seeds, as sums of the users."""
    users, labels = (
        np.concatenate([getattr(night, name) for night in nights]) for name in ("users", "labels")
    )
    scores = np.concatenate([night.scores[choice] for night in nights]).astype(np.float64)
    aucs = [per_user_auc(night.users, night.labels, night.scores[choice]) for night in nights]
    weights = np.concatenate([of.impressions for of in aucs])
    found = np.concatenate([of.auc for of in aucs])
    return {
        "gauc": RatioOfSums.of(np.concatenate([of.users for of in aucs]), weights * found, weights),
        "logloss": RatioOfSums.of(users, log_losses(labels, scores), np.ones(len(users))),
        "calibration": RatioOfSums.of(users, scores, labels),
    }


def log_losses(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the negative log-likelihood of each label, ``(n,)``."""
    p = np.clip(scores, PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    return -np.where(labels == 1, np.log(p), np.log1p(-p))


def _log_losses(night: Night) -> str:
    return ", ".join(
        f"{name} {log_losses(night.labels, scores).mean():.4f}" for name, scores in night.scores.items()
    )
