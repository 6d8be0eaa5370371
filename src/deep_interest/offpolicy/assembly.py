"""From tables to decisions: probabilities of the version to evaluate, and the reward model's expectations."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.errors import InputError
from deep_interest.offpolicy.decisions import Decisions
from deep_interest.offpolicy.parameters import OffPolicyParameters, TargetPolicy
from deep_interest.offpolicy.plackett_luce import slot_probabilities
from deep_interest.offpolicy.policies import epsilon_greedy, softmax
from deep_interest.offpolicy.reward_model import FOLDS, fold_of, rates_without
from deep_interest.sources.tables.decisions import DecisionTables

_TOLERANCE = 1e-3  # of sums of probabilities


@dataclass(frozen=True)
class Assembled:
    """What `evaluation.evaluate` needs.

    Attributes:
        decisions: the log.
        unseen: share of the target policy's probability on items that the log has never in the slot; NaN if its distribution is not known.
        target_reward: mean reward of the target policy's own log; NaN without one.
    """

    decisions: Decisions
    unseen: float
    target_reward: float


@dataclass(frozen=True)
class _Distribution:
    """Probabilities of items: those of a row of the log have its group.

    Attributes:
        of_row: ``(N,)`` group of each row of the log.
        group, item, slot, probability: ``(M,)`` group, number of the item, slot and probability.
    """

    of_row: NDArray[np.int64]
    group: NDArray[np.int64]
    item: NDArray[np.int64]
    slot: NDArray[np.int64]
    probability: NDArray[np.float64]

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of values of the items under the distribution of each row, ``(N,)``."""
        size = int(max(self.of_row.max(), self.group.max())) + 1
        found = np.bincount(self.group, weights=values * self.probability, minlength=size)
        return found.astype(np.float64)[self.of_row]

    def of_shown(self, item: NDArray[np.int64], items: int) -> NDArray[np.float64]:
        """Return the probability of the item that was shown in each row; 0 if the distribution lacks it."""
        keys = self.group * items + self.item
        order = np.argsort(keys, kind="stable")
        wanted = self.of_row * items + item
        place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        found = order[place]
        return np.where(keys[found] == wanted, self.probability[found], 0.0)


def assemble(tables: DecisionTables, settings: OffPolicyParameters) -> Assembled:
    """Return the decisions of a log.

    Raises:
        InputError: two rows of the log have the same request and slot, probabilities do not sum to 1, a request has no candidates, or a softmax
            has several slots.
    """
    log = tables.log
    if twice := int(log.duplicated(["request", "slot"]).sum()):
        raise InputError(
            f"source.log: {twice:,} row(s) have the request and slot of an earlier row; declare request and slot so that they identify a row"
        )
    others = [table["item"] for table in (tables.candidates, tables.target_log) if table is not None]
    names = pd.Index(pd.unique(pd.concat([log["item"], *others], ignore_index=True)))
    item, slot = names.get_indexer(log["item"]), log["slot"].to_numpy(np.int64)
    unit = "user" if settings.source.log.user else "request"
    cluster = pd.factorize(log[unit])[0].astype(np.int64)
    request = pd.factorize(log["request"])[0].astype(np.int64)
    reward = log["reward"].to_numpy(np.float64)
    distribution = _distribution(tables, settings, names, slot)
    unseen, expected, shown = float("nan"), None, None
    target = log["target"].to_numpy(np.float64)
    if distribution is not None:
        target = distribution.of_shown(item, len(names))
        keys = item * (int(slot.max()) + 1) + slot
        is_seen = np.isin(distribution.item * (int(slot.max()) + 1) + distribution.slot, keys)
        unseen = float(distribution.sums((~is_seen).astype(np.float64)).mean())
        expected, shown = _expectations(distribution, cluster, item, slot, reward, len(names))
    own = tables.target_log
    return Assembled(
        Decisions(
            cluster, request, slot, reward, log["propensity"].to_numpy(np.float64), target, expected, shown
        ),
        unseen,
        float("nan") if own is None else float(own["reward"].mean()),
    )


def _expectations(
    distribution: _Distribution, cluster: NDArray[np.int64], item: NDArray[np.int64], slot: NDArray[np.int64],
    reward: NDArray[np.float64], items: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Return what the reward model expects of the target policy and of what was shown, each from the other users."""
    folds, slots = fold_of(cluster), int(max(slot.max(), distribution.slot.max()))
    expected, shown = np.zeros(len(item)), np.zeros(len(item))
    for fold in range(FOLDS):
        rates = rates_without(fold, folds, item=item, slot=slot, reward=reward, items=items, slots=slots)
        rows = folds == fold
        expected[rows] = distribution.sums(rates.of(distribution.item, distribution.slot))[rows]
        shown[rows] = rates.of(item, slot)[rows]
    return expected, shown


def _distribution(
    tables: DecisionTables, settings: OffPolicyParameters, names: pd.Index, slot: NDArray[np.int64]
) -> _Distribution | None:
    if tables.target_log is not None:
        counts = tables.target_log.value_counts(["slot", "item"], sort=False).reset_index(name="rows")
        share = counts["rows"] / counts.groupby("slot")["rows"].transform("sum")
        _check_slots(slot, counts["slot"].to_numpy())
        group = counts["slot"].to_numpy(np.int64)
        return _Distribution(
            slot, group, names.get_indexer(counts["item"]), group, share.to_numpy(np.float64)
        )
    if tables.candidates is None:
        return None
    candidates = tables.candidates
    requests = pd.Index(pd.unique(candidates["request"]))
    of_row = requests.get_indexer(tables.log["request"]).astype(np.int64)
    if missing := int((of_row < 0).sum()):
        raise InputError(
            f"source.candidates: {missing:,} row(s) of the log have a request without candidates, for example "
            f"{tables.log['request'][of_row < 0].iloc[0]!r}; every request needs its candidates"
        )
    if twice := int(candidates.duplicated(["request", "item", "slot"]).sum()):
        raise InputError(
            f"source.candidates: {twice:,} row(s) have the request, item and slot of an earlier row"
        )
    code = requests.get_indexer(candidates["request"]).astype(np.int64)
    item, slots = names.get_indexer(candidates["item"]), int(slot.max())
    parts = list(_by_slot(candidates, code, item, slots, settings.target))
    group = np.concatenate([request * slots + number - 1 for number, request, _, _ in parts])
    found = _Distribution(
        of_row * slots + slot - 1, group, np.concatenate([items for _, _, items, _ in parts]),
        np.concatenate([np.full(len(request), number) for number, request, _, _ in parts]),
        np.concatenate([probability for *_, probability in parts]),
    )  # fmt: skip
    _check_sums(found, tables.log)
    return found


def _by_slot(
    candidates: pd.DataFrame,
    request: NDArray[np.int64],
    item: NDArray[np.int64],
    slots: int,
    policy: TargetPolicy,
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """Yield slot, request, item and probability of the candidates of each slot."""
    if "probability" in candidates:
        of_slot, probability = (
            candidates["slot"].to_numpy(np.int64),
            candidates["probability"].to_numpy(np.float64),
        )
        for number in range(1, slots + 1):
            rows = of_slot == number
            yield number, request[rows], item[rows], probability[rows]
        return
    scores = candidates["score"].to_numpy(np.float64)
    if policy.policy == "softmax":
        if slots > 1:
            yield from _sampled(scores, request, item, slots, policy.temperature or 1.0)
            return
        yield 1, request, item, softmax(scores, request, policy.temperature or 1.0)
        return
    for number in range(1, slots + 1):
        slot = np.full(len(scores), number)
        yield number, request, item, epsilon_greedy(scores, request, policy.epsilon or 0.0, slot)


def _sampled(
    scores: NDArray[np.float64], request: NDArray[np.int64], item: NDArray[np.int64], slots: int, temperature: float
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:  # fmt: skip
    """Yield the probabilities of sampling without replacement, slot by slot."""
    order = np.argsort(request, kind="stable")
    rows_of_requests = np.split(order, np.flatnonzero(np.diff(request[order])) + 1)
    probability = np.zeros((slots, len(scores)))
    for rows in rows_of_requests:
        filled = min(slots, len(rows))
        probability[:filled, rows] = slot_probabilities(scores[rows], temperature, filled).T
    for number in range(1, slots + 1):
        yield number, request, item, probability[number - 1]


def _check_sums(found: _Distribution, log: pd.DataFrame) -> None:
    sums = found.sums(np.ones(len(found.item)))
    wrong = np.flatnonzero(np.abs(sums - 1) > _TOLERANCE)
    if len(wrong):
        row = log.iloc[int(wrong[0])]
        raise InputError(
            f"source.candidates: the probabilities of request {row['request']!r}, slot {row['slot']} sum to {sums[wrong[0]]:.4g} "
            f"({len(wrong):,} rows of the log are affected), expected 1: list all candidates of every slot"
        )


def _check_slots(slot: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    if missing := sorted(set(slot.tolist()) - set(known.tolist())):
        raise InputError(
            f"source.target_log: has no rows for slot(s) {', '.join(map(str, missing))} of the log; declare the same slots in both"
        )
