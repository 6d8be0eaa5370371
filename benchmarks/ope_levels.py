"""Off-policy evaluation checked against the truth: ``python benchmarks/ope_levels.py [--repetitions 200] [--seed 0]``; one JSON line a case.

Each repetition draws a log of policy A in a small shop (kinds of visitors, items, slots, users who come back and differ in their taste for
clicking) and estimates what policy B would earn, which is known exactly. ``accepted`` is the share of the logs that the diagnostics accept;
``coverage`` the share of the accepted logs whose 95 % interval includes the truth, by estimator; ``coverage_all`` that of all logs;
``error`` the root mean square error relative to the truth, ``on_policy_error`` that of running B on as many requests. The last line
has, over the cases whose intervals would cover less than 90 %, the share of refused logs, and of the logs that are refused among those whose interval
misses.
"""

import argparse
import json
from dataclasses import dataclass

import numpy as np

from deep_interest.offpolicy.decisions import Decisions
from deep_interest.offpolicy.evaluation import ESTIMATORS, evaluate
from deep_interest.offpolicy.reward_model import FOLDS, fold_of, rates_without

KINDS = 12  # kinds of visitors
TASTE = 0.5  # standard deviation of a user's log-odds of clicking
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True)
class Case:
    """A log of A and a policy B.

    Attributes:
        name: of the case.
        exploration: share of A's visits with items in random order.
        users: number of users.
        items: number of items.
        slots: number of slots.
        b_exploration: the same share of B.
        agreement: correlation of the scores of A and B.
        hidden: share of the items that A never shows.
        declared: factor by which the declared propensities of random visits are wrong.
        rate: log-odds of a click.
    """

    name: str
    exploration: float
    users: int = 2000
    items: int = 10
    slots: int = 1
    b_exploration: float = 0.0
    agreement: float = 0.5
    hidden: float = 0.0
    declared: float = 1.0
    rate: float = -2.5


CASES = [
    Case("random log", 1.0),
    Case("random log, B explores", 1.0, b_exploration=0.3),
    Case("random log, three slots", 1.0, slots=3),
    Case("random log, 50 items, 20,000 users", 1.0, items=50, users=20_000),
    Case("half explores", 0.5),
    Case("half explores, three slots", 0.5, slots=3),
    Case("20 % explores, 10,000 users", 0.2, users=10_000),
    Case("20 % explores", 0.2),
    Case("5 % explores, 20,000 users", 0.05, users=20_000),
    Case("5 % explores", 0.05),
    Case("5 % explores, rare clicks", 0.05, rate=-4.5),
    Case("1 % explores, 50 items", 0.01, items=50),
    Case("0.1 % explores, 50 items", 0.001, items=50),
    Case("A never shows 30 % of the items", 1.0, hidden=0.3),
    Case("A never shows 10 % of the items", 0.5, hidden=0.1),
    Case("propensities wrong by a half", 0.5, declared=0.5),
]  # fmt: skip


@dataclass(frozen=True)
class Shop:
    """Click log-odds by kind and item, scores of both policies, examination by slot."""

    log_odds: np.ndarray
    scores_a: np.ndarray
    scores_b: np.ndarray
    examination: np.ndarray
    shown: np.ndarray


def make_shop(case: Case, rng: np.random.Generator) -> Shop:
    """Draw a shop."""
    log_odds = case.rate + 0.8 * rng.standard_normal((KINDS, case.items))
    common = rng.standard_normal((KINDS, case.items))
    own = rng.standard_normal((2, KINDS, case.items))
    scores = (
        0.7 * (log_odds - case.rate) + np.sqrt(case.agreement) * common + np.sqrt(1 - case.agreement) * own
    )
    shown = np.arange(case.items) >= round(case.hidden * case.items)
    return Shop(log_odds, scores[0], scores[1], 0.7 ** np.arange(case.slots), shown)


def probabilities(scores: np.ndarray, exploration: float, slots: int, shown: np.ndarray) -> np.ndarray:
    """Return the probability of each item in each slot by kind, ``(KINDS, slots, items)``."""
    best = np.argsort(-np.where(shown, scores, -np.inf), axis=1)[:, :slots]
    found = np.zeros((len(scores), slots, scores.shape[1])) + exploration * shown / shown.sum()
    np.put_along_axis(
        found, best[:, :, None], np.take_along_axis(found, best[:, :, None], 2) + 1 - exploration, 2
    )
    return found


def click_probability(log_odds: np.ndarray) -> np.ndarray:
    """Return the mean over users of the probability of a click in a slot that is looked at."""
    shifted = log_odds[..., None] + TASTE * NODES
    return (1 / (1 + np.exp(-shifted))) @ WEIGHTS / WEIGHTS.sum()


def truth(case: Case, shop: Shop) -> float:
    """Return the mean reward of an impression under B."""
    target = probabilities(shop.scores_b, case.b_exploration, case.slots, np.ones(case.items, bool))
    return float(((target * click_probability(shop.log_odds)[:, None]).sum(2) * shop.examination).mean())


def draw_log(
    case: Case, shop: Shop, rng: np.random.Generator, *, of_b: bool = False
) -> tuple[np.ndarray, ...]:
    """Draw users, kinds, items ``(V, slots)`` and clicks of the requests of A, or of B."""
    visits = rng.poisson(6 * rng.lognormal(-0.32, 0.8, case.users))
    user = np.repeat(np.arange(case.users), visits)
    kind = rng.integers(KINDS, size=len(user))
    exploration = case.b_exploration if of_b else case.exploration
    shown = np.ones(case.items, bool) if of_b else shop.shown
    scores = shop.scores_b if of_b else shop.scores_a
    order = np.argsort(-np.where(shown, scores, -np.inf), axis=1)[kind, : case.slots]
    explores = np.flatnonzero(rng.random(len(user)) < exploration)
    noise = np.where(shown, rng.random((len(explores), case.items)), -1.0)
    order[explores] = np.argsort(-noise, axis=1)[:, : case.slots]
    taste = TASTE * rng.standard_normal(case.users)
    log_odds = shop.log_odds[kind[:, None], order] + taste[user, None]
    probability = shop.examination / (1 + np.exp(-log_odds))
    return user, kind, order, (rng.random(order.shape) < probability).astype(float)


def decisions_of(case: Case, shop: Shop, log: tuple[np.ndarray, ...]) -> Decisions:
    """Return the log with the probabilities of both policies and a reward model."""
    user, kind, items, clicks = log
    logging = probabilities(shop.scores_a, case.exploration, case.slots, shop.shown)
    wrong = probabilities(shop.scores_a, min(1.0, case.exploration * case.declared), case.slots, shop.shown)
    target = probabilities(shop.scores_b, case.b_exploration, case.slots, np.ones(case.items, bool))
    rows, slot = np.repeat(np.arange(len(user)), case.slots), np.tile(np.arange(case.slots), len(user))
    item, reward, cluster = items.ravel(), clicks.ravel(), user[rows]
    propensity = (wrong if case.declared != 1 else logging)[kind[rows], slot, item]
    folds = fold_of(cluster)
    expected, shown = np.zeros(len(rows)), np.zeros(len(rows))
    for fold in range(FOLDS):
        rates = rates_without(
            fold, folds, item=item, slot=slot + 1, reward=reward, items=case.items, slots=case.slots
        )
        of = folds == fold
        table = rates.by_slot[1:, None] * rates.factor[None]
        expected[of] = (target[kind[rows[of]], slot[of]] * table[slot[of]]).sum(1)
        shown[of] = table[slot[of], item[of]]
    return Decisions(
        np.unique(cluster, return_inverse=True)[1], rows, slot + 1, reward, propensity,
        target[kind[rows], slot, item], expected, shown,
    )  # fmt: skip


def unseen_share(case: Case, shop: Shop, log: tuple[np.ndarray, ...]) -> float:
    """Return B's probability on items that the log never has in the slot, averaged over the rows."""
    _, kind, items, _ = log
    target = probabilities(shop.scores_b, case.b_exploration, case.slots, np.ones(case.items, bool))
    is_seen = np.zeros((case.slots, case.items), bool)
    is_seen[np.arange(case.slots), items] = True
    return float((target[kind] * ~is_seen).sum(2).mean())


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="20 repetitions")
    parser.add_argument("--details", action="store_true", help="a line for each log")
    arguments = parser.parse_args()
    repetitions = 20 if arguments.quick else arguments.repetitions
    refused, missed = [], []
    for number, case in enumerate(CASES):
        line, bad = run_case(case, repetitions, [arguments.seed, number], details=arguments.details)
        print(json.dumps(line), flush=True)
        if line["coverage_all"]["ips"] < 0.9:
            refused.append(1 - line["accepted"])
            missed.append(bad)
    if refused:
        of_missed = np.concatenate(missed)
        print(
            json.dumps(
                {
                    "bench": "ope_levels", "case": "cases that cover less than 90 %", "cases": len(refused),
                    "refused": round(float(np.mean(refused)), 3), "refused_of_missed": round(float(of_missed.mean()), 3),
                }
            )
        )  # fmt: skip


def run_case(
    case: Case, repetitions: int, seed: list[int], *, details: bool
) -> tuple[dict[str, object], np.ndarray]:
    """Return the line of a case, and for each log whose IPS interval misses whether it is refused."""
    covers: dict[str, list[bool]] = {}
    errors: dict[str, list[float]] = {}
    accepted, on_policy = [], []
    for repetition in range(repetitions):
        rng = np.random.default_rng([*seed, repetition])
        shop = make_shop(case, rng)
        value = truth(case, shop)
        log = draw_log(case, shop, rng)
        decisions = decisions_of(case, shop, log)
        on_policy.append(draw_log(case, shop, rng, of_b=True)[3].mean() / value - 1)
        if not decisions.target.any():  # an error instead of an estimate
            accepted.append(False)
            for key in ESTIMATORS:
                covers.setdefault(key, []).append(False)
                errors.setdefault(key, []).append(-1.0)
            continue
        found = evaluate(decisions, unseen=unseen_share(case, shop, log))
        accepted.append(not found.checks["refusals"])
        for row in found.results.itertuples():
            covers.setdefault(row.estimator, []).append(row.low <= value <= row.high)
            errors.setdefault(row.estimator, []).append(row.value / value - 1)
        if details:
            first = found.results.iloc[0]
            kept = (
                "effective_rewards",
                "effective_rows",
                "expected_rewards",
                "mean_weight",
                "mean_weight_error",
                "largest_share",
            )
            print(
                json.dumps(
                    {"case": case.name, "covers": [of[-1] for of in covers.values()], "z": (first["value"] - value) / max(first["error"], 1e-12)}
                    | {name: found.checks[name] for name in kept},
                    default=bool,
                )
            )  # fmt: skip
    good = np.array(accepted)

    def share(of: list[bool], rows: np.ndarray) -> float | None:
        return round(float(np.array(of)[rows].mean()), 3) if rows.any() else None

    line = {
        "bench": "ope_levels", "case": case.name, "repetitions": repetitions, "accepted": round(float(good.mean()), 3),
        "coverage": {key: share(of, good) for key, of in covers.items()},
        "coverage_all": {key: share(of, good | True) for key, of in covers.items()},
        "error": {key: round(float(np.sqrt(np.mean(np.square(of)))), 4) for key, of in errors.items()},
        "error_accepted": {
            key: round(float(np.sqrt(np.mean(np.square(np.array(of)[good])))), 4) if good.any() else None for key, of in errors.items()
        },
        "on_policy_error": round(float(np.sqrt(np.mean(np.square(on_policy)))), 4),
    }  # fmt: skip
    return line, ~good[~np.array(covers["ips"])]


if __name__ == "__main__":
    main()
