"""Leak hunt by intervention: change one thing in the data, fit boosted trees again, and see what happens to the GAUC.

A feature that is known only after the click, or a table with the clicks of the same moment, reveals the label: without it the GAUC
falls, and nothing else explains the fall.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from deep_interest.errors import InputError
from deep_interest.evaluation.metrics import UserAUC, per_user_auc
from deep_interest.evaluation.significance import (
    CHANCE,
    FEWEST_USERS,
    Interval,
    chance_interval,
    difference_interval,
)
from deep_interest.logs.feature_columns import ITEM_ID
from deep_interest.models.boosted import Boosted
from deep_interest.models.configs.boosted import BoostedConfig
from deep_interest.training.content import Data
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.evaluation import predict

UNCHANGED, SHUFFLED, LATER = "unchanged", "labels shuffled within users", "behaviours a day later"
WITHOUT = "without "
BEHAVIORS, OWN, ITEM, CONTEXT = "behaviours", "columns of behaviours", "item features", "context"
MOST = 0.5  # share of the GAUC above 0.5 that a source has to explain for a warning
LARGEST_PLAUSIBLE = 0.95
CERTAIN = 1.7  # half widths of a 95 % interval, which are those of one of 99.9 %


@dataclass(frozen=True)
class Outcome:
    """Result of an intervention.

    Attributes:
        name: what was changed.
        gauc: GAUC with its 95 % interval over users.
        loss: GAUC without the change minus that with it, with its paired interval; None for the unchanged data.
    """

    name: str
    gauc: Interval
    loss: Interval | None


@dataclass(frozen=True)
class Findings:
    """Results of all interventions.

    Attributes:
        split: split that they were scored on.
        outcomes: results, the unchanged data first.
        warnings: one sentence each.
    """

    split: str
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...]


def intervene(data: Data, *, later: Data | None = None, seed: int = 0, max_len: int = 100) -> Findings:
    """Fit and score boosted trees on the unchanged data and after each change.

    Args:
        data: samples, features and log. Scores are those of the validation split, or of the test split where fewer than
            two users of the validation split have both classes.
        later: the same data made from behaviours whose times are a day later; None if times cannot be shifted.
        seed: seed of the shuffled labels and of the trees.
        max_len: newest behaviours that the trees see.

    Raises:
        InputError: no split has two users with both classes.
    """
    split = _split_of(data)
    score = _Scorer(split, seed, max_len)
    base = score(data)
    outcomes = {UNCHANGED: Outcome(UNCHANGED, _gauc(base), None)}
    for name, found in _changed(data, later, score, seed):
        outcomes[name] = Outcome(name, _gauc(found), difference_interval(base, found))
    return Findings(split, tuple(outcomes.values()), tuple(_warnings(data, outcomes, score)))


def _split_of(data: Data) -> str:
    for split in ("validation", "test"):
        rows = data.samples[data.samples["split"] == split]
        classes = rows.groupby("user")["label"].nunique()
        if (classes == 2).sum() >= FEWEST_USERS:
            return split
    raise InputError(
        "interventions: neither the validation nor the test set has two users with both a positive and a negative sample; use more days"
    )


@dataclass(frozen=True)
class _Scorer:
    """Fits boosted trees on the training split and scores another one."""

    split: str
    seed: int
    max_len: int

    def __call__(self, data: Data, without: Collection[str] = ()) -> UserAUC:
        store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
        train, scored = (
            SampleSet.build(store, data.samples, split, max_len=self.max_len)
            for split in ("train", self.split)
        )
        torch.manual_seed(self.seed)
        model = Boosted(BoostedConfig(), data.features.schema.without(without))
        model.fit(train)
        return per_user_auc(
            scored.user.numpy(), scored.labels.numpy().astype(int), predict(model, scored, batch_size=4096)
        )


def _shuffled(data: Data, seed: int) -> Data:
    """Shuffle the labels of each user in each split."""
    samples = data.samples.copy()
    order = np.random.default_rng(seed).permutation(len(samples))
    mixed = samples.iloc[order].sort_values(["user", "split"], kind="stable")["label"].to_numpy()
    place = samples.sort_values(["user", "split"], kind="stable").index
    samples.loc[place, "label"] = mixed
    return replace(data, samples=samples)


def _changed(data: Data, later: Data | None, score: _Scorer, seed: int) -> Iterator[tuple[str, UserAUC]]:
    """Yield the name and the scores of each change."""
    yield SHUFFLED, score(_shuffled(data, seed))
    if later is not None:
        yield LATER, score(later)
    if data.log.offsets[-1]:
        yield f"{WITHOUT}{BEHAVIORS}", score(_without_behaviors(data))
    profile = [field.name for field in data.features.schema.profile]
    for name, fields in (_groups(data) | {"profile": profile}).items():
        if fields:
            yield f"{WITHOUT}{name}", score(data, fields)


def _groups(data: Data) -> dict[str, list[str]]:
    """Return the groups of columns that may reveal a label."""
    schema = data.features.schema
    item = [field.name for field in schema.item if field.name != ITEM_ID]
    has_id = ITEM_ID in {field.name for field in schema.item} & {field.name for field in schema.behavior}
    return {
        OWN: [field.name for field in schema.own if not field.derived],
        ITEM: item if has_id else [],
        CONTEXT: [field.name for field in schema.context],
    }


def _without_behaviors(data: Data) -> Data:
    names = [name for name in data.samples if name.startswith(("history_begin", "history_end"))]
    return replace(
        data, samples=data.samples.assign(**dict.fromkeys(names, 0)).astype(data.samples.dtypes[names])
    )


def _gauc(aucs: UserAUC) -> Interval:
    interval = chance_interval(aucs)
    return replace(
        interval,
        difference=interval.difference + CHANCE,
        low=interval.low + CHANCE,
        high=interval.high + CHANCE,
    )


def _warnings(data: Data, outcomes: dict[str, Outcome], score: _Scorer) -> Iterator[str]:
    found = outcomes[UNCHANGED].gauc
    shuffled = outcomes[SHUFFLED].gauc
    if shuffled.difference - CHANCE > CERTAIN * (shuffled.difference - shuffled.low):
        yield (
            f"with labels shuffled within users the GAUC is {outcomes[SHUFFLED].gauc.difference:.3f}, above 0.5: the samples themselves contain "
            "the label"
        )
    if found.low > LARGEST_PLAUSIBLE:
        yield f"the GAUC is {found.difference:.3f}: no model of real clicks is that good, so something reveals the label"
    for name, fields in _groups(data).items():
        outcome = outcomes.get(f"{WITHOUT}{name}")
        if outcome is None or not _explains_most(outcome, found):
            continue
        if name != ITEM or _item_features_alone_explain_most(data, fields, outcomes, score):
            yield _about_columns(data, name, fields, outcome, found, score)
    later = outcomes.get(LATER)
    if later is not None and _explains_most(later, found):
        yield (
            f"the last day of the behaviours explains most of the label: GAUC {found.difference:.3f}, with behaviours that are a day older "
            f"{later.gauc.difference:.3f}. Interests last longer than that; are clicks among the behaviours, with times before their impressions?"
        )


def _item_features_alone_explain_most(
    data: Data, fields: list[str], outcomes: dict[str, Outcome], score: _Scorer
) -> bool:
    """Return whether item features explain most also without behaviours: otherwise they only say which items of the history match."""
    unchanged, alone = outcomes[UNCHANGED].gauc, outcomes.get(f"{WITHOUT}{BEHAVIORS}")
    if alone is None:
        return True
    neither = score(_without_behaviors(data), fields).gauc().value
    return alone.gauc.difference - neither > MOST * (unchanged.difference - CHANCE)


def _explains_most(outcome: Outcome, found: Interval) -> bool:
    return (
        found.low > CHANCE
        and outcome.loss is not None
        and outcome.loss.low > 0
        and outcome.loss.difference > MOST * (found.difference - CHANCE)
    )


def _about_columns(
    data: Data, name: str, fields: list[str], outcome: Outcome, found: Interval, score: _Scorer
) -> str:
    """Return the warning about a group, which names the column without which the GAUC falls most."""
    gaucs = {field: score(data, [field]).gauc().value for field in fields} if len(fields) > 1 else {}
    worst = min(gaucs, key=lambda field: gaucs[field]) if gaucs else fields[0]
    alone = f" (without {worst} alone {gaucs[worst]:.3f})" if gaucs else ""
    return (
        f"{name} {'explains' if name == CONTEXT else 'explain'} most of the label: GAUC {found.difference:.3f}, without {', '.join(fields)} "
        f"{outcome.gauc.difference:.3f}{alone}; is {worst} known before the impression?"
    )
