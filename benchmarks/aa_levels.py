"""A/A tests: how often a 95 % interval excludes 0, and a table has a star, where there is no difference.

    python benchmarks/aa_levels.py                              # simulated per-user AUCs
    python benchmarks/aa_levels.py --fits lr=SAMPLES,PREDICTIONS base=SAMPLES,PREDICTIONS

Simulated: the models of a table have the same expected GAUC and differ by chance alone, over users, seeds and their
interaction. Fits: the seeds of each model (all of one dataset) are dealt into disjoint groups, each group is a row of one table,
and rows of the same model are compared. SAMPLES and PREDICTIONS are the Parquet files that a run writes, with many seeds: `kedro run
--pipelines=simulated.base --params="training.seeds=1 2 … 40"`. One JSON object per line.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from deep_interest.evaluation.metrics import UserAUC, per_user_auc
from deep_interest.evaluation.seed_variance import moderated, seed_spread
from deep_interest.evaluation.significance import difference_interval, holm, mean_over_seeds

Fits = list[UserAUC]


@dataclass(frozen=True)
class Setting:
    """How the AUCs of one simulated table vary.

    Attributes:
        users: number of users.
        ratio: variance of the GAUC by the main effect of the seed, over that by the interaction.
        spread: standard deviation of the log of this ratio over models.
        skew: standard deviation of the log of a user's impressions.
        taste: standard deviation of a model's effect on a user with 12 impressions.
    """

    users: int
    ratio: float
    spread: float
    skew: float
    taste: float


SETTINGS = (
    Setting(1000, 1, 0.5, 0.7, 0), Setting(1000, 5, 0.5, 0.7, 0), Setting(1000, 10, 1.0, 0.7, 0),
    Setting(300, 0, 0, 0.7, 0), Setting(300, 1, 0.5, 0.7, 0), Setting(300, 1, 0.5, 0.7, 0.1),
    Setting(100, 1, 0.5, 1.0, 0.1), Setting(50, 1, 0.5, 1.0, 0.2), Setting(30, 1, 0.5, 1.0, 0.2),
)  # fmt: skip


def simulated_table(rng: np.random.Generator, setting: Setting, *, models: int, seeds: int) -> list[Fits]:
    """Fits of models without a true difference."""
    n = setting.users
    impressions = np.maximum(2, np.exp(rng.normal(np.log(12), setting.skew, n))).astype(int)
    weights, noise = impressions / impressions.sum(), np.sqrt(12 / impressions)
    table = []
    for _ in range(models):
        own = 0.05 * np.exp(rng.normal(0, 0.5)) * noise
        main = setting.ratio * np.exp(rng.normal(0, setting.spread)) * (weights**2 * own**2).sum()
        aucs = 0.65 + setting.taste * noise * rng.standard_normal(n) + own * rng.standard_normal((seeds, n))
        aucs += main**0.5 * rng.standard_normal((seeds, 1))
        table.append([UserAUC(np.arange(n), impressions, auc, n, int(impressions.sum())) for auc in aucs])
    return table


def exclusions(table: Sequence[Fits], pairs: Sequence[tuple[int, int]]) -> tuple[list[bool], bool]:
    """Which intervals exclude 0, and whether any p-value is below 5 % after Holm's correction."""
    seeds, means = moderated([seed_spread(fits) for fits in table]), [mean_over_seeds(fits) for fits in table]
    found = [difference_interval(means[i], means[j], seeds=[seeds[i], seeds[j]]) for i, j in pairs]
    return [one.low > 0 or one.high < 0 for one in found], bool(
        (holm([one.p_value for one in found]) < 0.05).any()
    )


def simulated(tables: int, seed: int) -> Iterator[dict]:
    """Levels over simulated tables, each with about ``tables`` × 25 comparisons with the first row."""
    for models, seeds in ((25, 2), (25, 5), (8, 2), (8, 5), (2, 2), (2, 5)):
        for setting in SETTINGS:
            rng = np.random.default_rng(seed)
            pairs = [(i, 0) for i in range(1, models)]
            runs = [
                exclusions(simulated_table(rng, setting, models=models, seeds=seeds), pairs)
                for _ in range(tables * (1 if models == 25 else 3 if models == 8 else 10))
            ]
            yield {
                "bench": "aa_levels", "case": "simulated", **vars(setting), "models": models, "seeds": seeds,
                **_levels(runs),
            }  # fmt: skip


def of_fits(files: dict[str, tuple[str, str]], deals: int, seed: int) -> Iterator[dict]:
    """Levels over groups of seeds of real fits."""
    fits = {model: _fits(*paths) for model, paths in files.items()}
    for seeds in (2, 5):
        rng, by_model = np.random.default_rng(seed), {model: [] for model in fits}
        for _ in range(deals):
            table, owner = [], []
            for model, own in fits.items():
                groups = rng.permutation(len(own))[: len(own) // seeds * seeds].reshape(-1, seeds)
                table += [[own[k] for k in group] for group in groups]
                owner += [model] * len(groups)
            for model in fits:
                rows = [k for k, of in enumerate(owner) if of == model]
                pairs = list(zip(rows[::2], rows[1::2], strict=False))
                excluded, _ = exclusions(table, pairs)
                starred = exclusions(table, [(k, rows[0]) for k in rows[1:]])[1]
                by_model[model].append((excluded, starred, _users_only(table, pairs)))
        for model, runs in by_model.items():
            yield {
                "bench": "aa_levels", "case": "fits", "model": model, "seeds": seeds,
                "users": len(fits[model][0].users), **_levels([run[:2] for run in runs]),
                "excluded_over_users_only": float(np.mean([run[2] for run in runs])),
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


def _users_only(table: Sequence[Fits], pairs: Sequence[tuple[int, int]]) -> float:
    means = [mean_over_seeds(fits) for fits in table]
    found = [difference_interval(means[i], means[j]) for i, j in pairs]
    return float(np.mean([one.low > 0 or one.high < 0 for one in found]))


def _levels(runs: Sequence[tuple[list[bool], bool]]) -> dict[str, float]:
    return {
        "comparisons": sum(len(excluded) for excluded, _ in runs),
        "excluded": float(np.mean(np.concatenate([excluded for excluded, _ in runs]))),
        "tables_with_a_star": float(np.mean([starred for _, starred in runs])),
    }


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
