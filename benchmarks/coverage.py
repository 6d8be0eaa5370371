"""Coverage of the intervals of a difference in GAUC, and the predictions of *power*, on new users of the simulated shop.

    python benchmarks/coverage.py [--fits 8] [--blocks 4] [--users 300] [--repetitions 1000]

Some fits of each model are trained on one log, and score users of other blocks. Test sets of ``--users`` users are drawn from these with
replacement; each is scored by ``--seeds`` fits, drawn with replacement, of either model. The true difference is that
of the mean over all fits, on all users. One JSON line per pair of models: ``covered`` is the share of the 95 % intervals that contain the
true difference, over users alone (for the first fits) and over users and seeds. Then each test set predicts how many users
show the true difference with a probability of 80 %; ``found`` is the share of as many other test sets, of the median of these sizes, whose
interval excludes 0, and ``users_ratio`` is the predicted number of users over the one at which 80 % would be found.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from calibration import CONF, Shop, experiment_of
from kedro.config import OmegaConfigLoader
from machine import this_commit, this_machine
from scipy.special import ndtri

from deep_interest.evaluation import (
    Interval,
    UserAUC,
    difference_interval,
    mean_over_seeds,
    per_user_auc,
    power_of,
    variance_over_seeds,
)
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.retraining.fitting import fit_challenger, held_out_scores
from deep_interest.simulation.config import SimulationConfig

Fits = Sequence[UserAUC]


@dataclass(frozen=True)
class Population:
    """AUCs of all users by all fits of the models.

    Attributes:
        weights: ``(m,)`` impressions of each user.
        aucs: ``(F, m)`` of each model.
    """

    weights: np.ndarray
    aucs: dict[str, np.ndarray]

    def difference(self, ours: str, base: str) -> float:
        """The true difference in GAUC."""
        one, other = (self.aucs[name].mean(0) for name in (ours, base))
        return float(np.average(one - other, weights=self.weights))

    def test_set(self, model: str, users: np.ndarray, fits: Sequence[int]) -> Fits:
        """The AUCs of some users by some fits."""
        weights, names = self.weights[users], np.arange(len(users))
        return [
            UserAUC(names, weights, self.aucs[model][fit][users], len(users), int(weights.sum()))
            for fit in fits
        ]


def interval(ours: Fits, base: Fits, *, over_seeds: bool) -> Interval:
    seeds = [variance_over_seeds(fits) for fits in (ours, base)] if over_seeds else ()
    return difference_interval(mean_over_seeds(ours), mean_over_seeds(base), seeds=seeds)


def pair_line(
    population: Population, ours: str, base: str, *, seeds: int, users_of_test_set: int, repetitions: int
) -> dict[str, object]:
    """Measure coverage and power of one pair of models."""
    random, count = np.random.default_rng(1), len(population.weights)
    fits = len(population.aucs[ours])
    truth, first = population.difference(ours, base), list(range(seeds))
    given = [population.aucs[name][:seeds].mean(0) for name in (ours, base)]
    truth_of_first = float(np.average(given[0] - given[1], weights=population.weights))
    covered = {"users": 0, "users and seeds": 0}
    sizes, powers = [], []
    for _ in range(repetitions):
        users = random.integers(count, size=users_of_test_set)
        found = interval(
            *(population.test_set(name, users, first) for name in (ours, base)), over_seeds=False
        )
        covered["users"] += found.low <= truth_of_first <= found.high
        drawn = [population.test_set(name, users, random.integers(fits, size=seeds)) for name in (ours, base)]
        found = interval(*drawn, over_seeds=True)
        covered["users and seeds"] += found.low <= truth <= found.high
        one, other = (mean_over_seeds(population.test_set(name, users, first)) for name in (ours, base))
        power = power_of(one, other)
        sizes.append(power.users_for(abs(truth_of_first)))
        powers.append(power.smallest_difference)
    size = max(2, round(float(np.median(sizes))))
    shown = 0
    for _ in range(repetitions):
        users = random.integers(count, size=size)
        found = interval(
            *(population.test_set(name, users, first) for name in (ours, base)), over_seeds=False
        )
        shown += not found.low <= 0 <= found.high
    share = shown / repetitions
    reached = (ndtri(min(share, 1 - 0.5 / repetitions)) + ndtri(0.975)) / (ndtri(0.8) + ndtri(0.975))
    return {
        "bench": "coverage", "models": [ours, base], "difference": round(truth, 5), "users": users_of_test_set, "of": count, "seeds": seeds,
        "covered": {name: round(hits / repetitions, 3) for name, hits in covered.items()},
        "smallest_difference": round(float(np.median(powers)), 5), "users_for_80_percent": size, "found": round(share, 3),
        "users_ratio": round(float(reached**2), 2), "repetitions": repetitions,
    }  # fmt: skip


def population_of(chosen: argparse.Namespace, folder: Path) -> Population:
    """Train the fits and score the users."""
    parameters = OmegaConfigLoader(
        str(CONF), base_env="base", default_run_env="base", merge_strategy={"parameters": "soft"}
    )["parameters"]
    blocks = range(1, 1 + chosen.blocks)
    users = (1 + chosen.blocks) * SimulationConfig().block_users
    simulation = SimulationConfig.model_validate(parameters["simulation"] | {"users": users})
    shop = Shop(DatasetParameters.model_validate(parameters["datasets"]["simulated"]), simulation)
    vocabularies = FieldVocabularies()
    train = shop.data([0], vocabularies)
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    held = [shop.data([block], frozen) for block in blocks]
    weights, aucs = None, {}
    for name in chosen.models:
        experiment, scored = experiment_of(name, parameters, str(folder)), []
        for seed in range(chosen.fits):
            fitted = fit_challenger(
                experiment, train, overrides={}, seed=seed, state_file=folder / f"{name}_{seed}.pt"
            )
            parts = []
            for data in held:
                test = data.samples[data.samples["split"] == "test"]
                scores = held_out_scores(
                    fitted.model(experiment.model), fitted.schema, data, experiment, fitted.training
                )
                parts.append(per_user_auc(test["user"].to_numpy(), test["label"].to_numpy(), scores))
            scored.append(np.concatenate([part.auc for part in parts]))
            weights = np.concatenate([part.impressions for part in parts])
        aucs[name] = np.stack(scored)
    assert weights is not None
    return Population(weights, aucs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["din", "wide_deep", "base"])
    parser.add_argument("--fits", type=int, default=8, help="fits of each model")
    parser.add_argument("--seeds", type=int, default=5, help="fits that score a test set")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of 10,000 users to test on")
    parser.add_argument("--users", type=int, default=300, help="users of a test set")
    parser.add_argument("--repetitions", type=int, default=1000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        population = population_of(chosen, Path(folder))
    facts = {"machine": this_machine(), "commit": this_commit()}
    for ours, base in combinations(chosen.models, 2):
        line = pair_line(
            population,
            ours,
            base,
            seeds=chosen.seeds,
            users_of_test_set=chosen.users,
            repetitions=chosen.repetitions,
        )
        print(json.dumps(line | facts), flush=True)


if __name__ == "__main__":
    main()
