"""Retrain the models of a world after each day, with the functions of the retraining pipeline."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from deep_interest.closed_loop.log import WorldLog
from deep_interest.closed_loop.rankers import Ranker
from deep_interest.closed_loop.version_ranker import VersionRanker
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.logs.tables import CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.retraining.days import (
    ReaderConfig,
    combine_days,
    content_hash,
    day_number,
    file_sizes,
    read_day,
)
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.retraining.plan import Plan, plan_run
from deep_interest.retraining.rows import Before, assign_rows
from deep_interest.retraining.runs import artifacts_of, fit_by_plan, judge_by_plan, version_name
from deep_interest.retraining.window import encode_window
from deep_interest.serving.registry import Registry
from deep_interest.simulation.visits import Draw, assign_arms, uniforms
from deep_interest.training.runs import Experiment

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelArm:
    """An arm that a model serves, the champion of its registry.

    Attributes:
        name: name of the arm.
        experiment: model, recipe and options.
        registry: versions of the arm.
        log: log of the world.
        reading: how the days are read, with the feature columns.
        nights: days after which the model is trained.
        fallback: ranks until the gate has promoted a version.
        training_log: which impressions the model is trained on.
    """

    name: str
    experiment: Experiment
    registry: Registry
    log: WorldLog
    reading: ReaderConfig
    nights: range
    fallback: Ranker
    training_log: "TrainingLog"

    def ranker(self) -> Ranker:
        """Return the champion as a ranker; until there is one, the fallback, with a warning."""
        champion = self.registry.champion()
        if champion is None:
            logger.warning(
                "%s: the gate has not promoted a version of %s yet (%s trained), so %s ranks; more days of phases.warm_up or more users may "
                "help", self.name, self.experiment.model, len(self.registry.names()), self.fallback.version,
            )  # fmt: skip
            return self.fallback
        return VersionRanker(champion, self.log.config, self.reading.features, self.experiment.run)


@dataclass(frozen=True)
class OwnUsers:
    """Selects the impressions that one ranker has shown: all those before the A/B test, then those of the users of the arm.

    Attributes:
        split: share of the users by arm.
        arm: the arm.
        start: first day of the A/B test.
    """

    split: Mapping[str, float]
    arm: str
    start: str

    def of(self, shown: pd.DataFrame, seed: int) -> np.ndarray:
        """Return whether each impression is one of these, ``(n,)`` bool."""
        arms = assign_arms(shown["user"].to_numpy(), self.split, seed)
        before = shown["day"].to_numpy() < day_number(self.start)
        return before | (arms == list(self.split).index(self.arm))


@dataclass(frozen=True)
class TrainingLog:
    """Selects the impressions that a model is trained on.

    Attributes:
        seed: seed of the assignment to arms and of the choice of negatives.
        negatives_kept: share of the impressions without a click that are in the log; the retrained model corrects its probabilities for it
            (``retraining.calibration``).
        own: selects the impressions of one arm; None for those of all arms.
    """

    seed: int
    negatives_kept: float = 1.0
    own: OwnUsers | None = None

    def of(self, shown: pd.DataFrame) -> np.ndarray:
        """Return whether each impression is in the log, ``(n,)`` bool; always the same for an impression."""
        keys = (shown[name].to_numpy() for name in ("user", "time", "item"))
        is_kept = (shown["label"].to_numpy() > 0) | (
            uniforms(self.seed, Draw.TRAINING, *keys) < self.negatives_kept
        )
        return is_kept if self.own is None else is_kept & self.own.of(shown, self.seed)


@dataclass
class Nights:
    """Retrains the models of some arms after each day.

    Attributes:
        arms: the arms that learn.
        log: log of the world.
        reading: how the days are read.
        protocol: protocol of the samples.
        retraining: parameters of retraining.
    """

    arms: Mapping[str, ModelArm]
    log: WorldLog
    reading: ReaderConfig
    protocol: ProtocolParameters
    retraining: RetrainingParameters
    _tables: dict[str, CanonicalTables] = field(default_factory=dict)

    def learn(self, day: int) -> None:
        """Train a version of each arm on the log up to a day and let the gate decide, unless that has been done."""
        name = self.log.name(day)
        due = [
            arm for arm in self.arms.values() if day in arm.nights and name not in arm.registry.state().days
        ]
        if not due:
            return
        days = [self.log.name(number) for number in range(day + 1)]
        whole = combine_days([self._read(each) for each in days], days, self.reading)
        for arm in due:
            self._learn(arm, whole, days)

    def _read(self, day: str) -> CanonicalTables:
        if day not in self._tables:
            self._tables[day] = read_day(self.log.days / day, self.reading)
        return self._tables[day]

    def _learn(self, arm: ModelArm, whole: CanonicalTables, days: list[str]) -> None:
        registry, retraining = arm.registry, self.retraining
        state, champion = registry.state(), registry.champion()
        records = {day: _record(self.log.days / day) for day in days if day not in state.days}
        plan = plan_run(days, state, champion, retraining, records)
        tables = replace(
            whole, impressions=whole.shown[arm.training_log.of(whole.shown)].reset_index(drop=True)
        )
        vocabularies = champion.vocabularies() if champion else FieldVocabularies()
        data = encode_window(
            tables, train=plan.train, held_out=plan.held_out, protocol=self.protocol, features=self.reading.features,
            vocabularies=vocabularies,
        )  # fmt: skip
        rows = assign_rows(
            tables, self.reading.features, retraining.rows, vocabularies, held_out=plan.held_out,
            before=Before(champion.schema.tables, champion.manifest["days"]["held_out"]) if champion else None,
        )  # fmt: skip
        fitted = fit_by_plan(arm.experiment, data, plan, registry, retraining, rows)
        verdict, calibration = judge_by_plan(
            arm.experiment, fitted, data, plan, registry, retraining.gate, precision=retraining.precision, rows=rows,
            calibration=retraining.calibration,
        )  # fmt: skip
        version = version_name(
            plan, fitted, retraining.gate, precision=retraining.precision, calibration=retraining.calibration
        )
        artifacts = artifacts_of(
            arm.experiment.dataset, arm.experiment.model, plan, fitted, verdict, vocabularies, rows=rows, calibration=calibration
        )  # fmt: skip
        registry.add(version, artifacts)
        promotions = state.promotions + ((version,) if verdict.promoted else ())
        registry.commit(
            state.model_copy(update={"promotions": promotions, "days": state.days | plan.records})
        )
        registry.prune(retraining.keep_versions)
        _report(arm, plan, version, verdict.promoted)


def _report(arm: ModelArm, plan: Plan, version: str, promoted: bool) -> None:
    logger.debug(
        "%s: %s trained on %s, %s",
        arm.name,
        version,
        ", ".join(plan.train),
        "promoted" if promoted else "refused",
    )


def _record(folder: Path) -> dict:
    return {"hash": content_hash(folder), "files": file_sizes(folder)}
