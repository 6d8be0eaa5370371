"""A/A tests: how often a 95 % interval excludes 0, and a table has a star, where there is no difference.

    python benchmarks/aa_levels.py                              # simulated per-user AUCs
    python benchmarks/aa_levels.py --fits lr=SAMPLES,PREDICTIONS base=SAMPLES,PREDICTIONS

Simulated: the models of a table have the same expected GAUC and differ by chance alone, over users, seeds and their
interaction. Fits: two disjoint groups of seeds of one model are compared, many times; the standard error of the rate is a jackknife
over the seeds, as all comparisons share them. SAMPLES and PREDICTIONS are the Parquet files that a run writes, with many seeds:
`kedro run --pipelines=simulated.base --params="training.seeds=1 2 … 80"`. One JSON object per line: `excluded` is the level,
`power` the share of intervals that exclude 0 if the true difference is two of its standard deviations (at most 52 %: known variance).
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deep_interest.evaluation.metrics import UserAUC, per_user_auc
from deep_interest.evaluation.seed_variance import variance_over_seeds
from deep_interest.evaluation.significance import Interval, difference_interval, holm, mean_over_seeds

Fits = list[UserAUC]


@dataclass(frozen=True)
class Setting:
    """How the AUCs of one simulated table vary.

    Attributes:
        users: number of users.
        ratio: variance of the GAUC over seeds, over its part from the interaction; at least 1.
        spread: standard deviation of the log of a model's deviations over seeds; 0 for the same kind of model throughout.
        taste: standard deviation of a model's effect on a user with 12 impressions; 0 for the same kind of model throughout.
        skew: standard deviation of the log of a user's impressions.
        other_ratio: ratio of every second model; 0 for that of the others.
    """

    users: int
    ratio: float
    spread: float = 0
    taste: float = 0
    skew: float = 0.7
    other_ratio: float = 0


SETTINGS = (
    Setting(1000, 1), Setting(1000, 2), Setting(1000, 6), Setting(300, 1), Setting(300, 2), Setting(100, 2),
    Setting(50, 1, skew=1), Setting(30, 1, skew=1), Setting(300, 1, spread=0.5), Setting(300, 1, other_ratio=3),
    Setting(300, 1, other_ratio=10), Setting(300, 2, spread=1),
    Setting(300, 2, spread=0.5, taste=0.03), Setting(300, 2, spread=0.5, taste=0.1),
    Setting(50, 2, spread=0.5, taste=0.2, skew=1), Setting(30, 2, spread=0.5, taste=0.2, skew=1),
)  # fmt: skip


def simulated_table(rng: np.random.Generator, setting: Setting, *, models: int, seeds: int) -> list[Fits]:
    """Fits of models without a true difference."""
    n = setting.users
    impressions = np.maximum(2, np.exp(rng.normal(np.log(12), setting.skew, n))).astype(int)
    weights, noise = impressions / impressions.sum(), np.sqrt(12 / impressions)
    table = []
    for model in range(models):
        ratio = setting.other_ratio if setting.other_ratio and model % 2 else setting.ratio
        own = 0.05 * np.exp(rng.normal(0, setting.spread)) * noise
        main = (ratio - 1) * (weights**2 * own**2).sum()
        aucs = 0.65 + setting.taste * noise * rng.standard_normal(n) + own * rng.standard_normal((seeds, n))
        aucs += main**0.5 * rng.standard_normal((seeds, 1))
        table.append([UserAUC(np.arange(n), impressions, auc, n, int(impressions.sum())) for auc in aucs])
    return table


def intervals(table: Sequence[Fits]) -> list[Interval]:
    """Each model's difference to the first one."""
    seeds, means = [variance_over_seeds(fits) for fits in table], [mean_over_seeds(fits) for fits in table]
    return [difference_interval(means[i], means[0], seeds=[seeds[i], seeds[0]]) for i in range(1, len(table))]


def starred(table: Sequence[Fits]) -> bool:
    """Whether any p-value is below 5 % after Holm's correction."""
    return bool((holm([interval.p_value for interval in intervals(table)]) < 0.05).any())


def simulated(tables: int, seed: int) -> Iterator[dict]:
    """Levels over ``25 × tables`` simulated pairs of models, stars over ``tables`` tables of 25 models."""
    for seeds in (2, 5):
        for setting in SETTINGS:
            rng = np.random.default_rng(seed)
            pairs = [
                intervals(simulated_table(rng, setting, models=2, seeds=seeds))[0] for _ in range(25 * tables)
            ]
            stars = [starred(simulated_table(rng, setting, models=25, seeds=seeds)) for _ in range(tables)]
            yield {
                "bench": "aa_levels", "case": "simulated", **vars(setting), "seeds": seeds, **_levels(pairs),
                "tables_with_a_star": float(np.mean(stars)),
            }  # fmt: skip


def of_fits(files: dict[str, tuple[str, str]], tables: int, seed: int) -> Iterator[dict]:
    """Levels over ``100 × tables`` pairs of disjoint groups of seeds of each model, stars over tables of all groups."""
    for model, paths in files.items():
        fits = _fits(*paths)
        for seeds in (2, 5):
            rng = np.random.default_rng(seed)
            orders = [rng.permutation(len(fits)) for _ in range(100 * tables)]
            pairs, used = [], np.zeros((len(orders), len(fits)), dtype=bool)
            for row, order in enumerate(orders):
                used[row, order[: 2 * seeds]] = True
                pairs += intervals(_groups(fits, order[: 2 * seeds], seeds))
            stars = [
                starred(_groups(fits, order[: len(fits) // seeds * seeds], seeds))
                for order in orders[:tables]
            ]
            yield {
                "bench": "aa_levels", "case": "fits", "model": model, "seeds": seeds, "fits": len(fits),
                "users": len(fits[0].users), "ratio": _ratio(fits), **_levels(pairs),
                "excluded_error": _jackknife_error(_excluded(pairs), used),
                "tables_with_a_star": float(np.mean(stars)),
            }  # fmt: skip


def coverage_of_few_users(files: dict[str, tuple[str, str]], tables: int, seed: int) -> Iterator[dict]:
    """How often the interval over users misses the difference of two real models, on few users drawn from all."""
    fits = {model: mean_over_seeds(_fits(*paths)[:2]) for model, paths in files.items()}
    for (one, ours), (other, base) in combinations(fits.items(), 2):
        truth = ours.gauc().value - base.gauc().value
        for users in (30, 50, 100, 300):
            rng, missed = np.random.default_rng(seed), 0
            for _ in range(tables * 20):
                drawn = rng.integers(len(ours.users), size=users)
                pair = [
                    UserAUC(np.arange(users), m.impressions[drawn], m.auc[drawn], users, users)
                    for m in (ours, base)
                ]
                interval = difference_interval(*pair)
                missed += not interval.low <= truth <= interval.high
            yield {
                "bench": "aa_levels", "case": "few users", "model": f"{one}, {other}", "users": users,
                "excluded": missed / (tables * 20),
            }  # fmt: skip


def _groups(fits: Fits, order: NDArray[np.integer], seeds: int) -> list[Fits]:
    return [[fits[k] for k in group] for group in order.reshape(-1, seeds)]


def _ratio(fits: Fits) -> float:
    """Variance of the GAUC over all fits, over its part from the interaction: 1 without a main effect of the seed."""
    variance = variance_over_seeds(fits)
    return variance.total / variance.interaction


def _excluded(pairs: Sequence[Interval], shift: float = 0.0) -> NDArray[np.bool_]:
    return np.array([pair.low + shift > 0 or pair.high + shift < 0 for pair in pairs])


def _levels(pairs: Sequence[Interval]) -> dict[str, float]:
    two_deviations = 2 * float(np.std([pair.difference for pair in pairs]))
    return {
        "comparisons": len(pairs),
        "excluded": float(_excluded(pairs).mean()),
        "power": float(_excluded(pairs, two_deviations).mean()),
    }


def _jackknife_error(excluded: NDArray[np.bool_], used: NDArray[np.bool_]) -> float:
    """Standard error of the rate over other fits: the rates without the comparisons that use each fit.

    Args:
        excluded: ``(M,)`` of each comparison.
        used: ``(M, n)`` whether it uses the fit.
    """
    rates = (excluded[:, None] & ~used).sum(axis=0) / (~used).sum(axis=0)
    return float(((len(rates) - 1) * rates.var()) ** 0.5)


def _fits(samples: str, predictions: str) -> Fits:
    test = pd.read_parquet(samples).query("split == 'test'")
    scores = pd.read_parquet(predictions)
    users, labels = test["user"].to_numpy(), test["label"].to_numpy()
    return [
        per_user_auc(users, labels, scores[name].to_numpy()) for name in scores if name.startswith("seed_")
    ]


def main() -> None:
    """Print the levels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", nargs="+", metavar="MODEL=SAMPLES,PREDICTIONS")
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fits:
        files = {}
        for given in options.fits:
            model, paths = given.split("=", 1)
            samples, predictions = paths.split(",")
            files[model] = (samples, predictions)
        lines = [
            *of_fits(files, options.tables, options.seed),
            *coverage_of_few_users(files, options.tables, options.seed),
        ]
        for line in lines:
            print(json.dumps(line), flush=True)
        return
    for line in simulated(options.tables, options.seed):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
