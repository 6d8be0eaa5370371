"""Position bias on the simulated shop: is the planted effect recovered, and does debiasing rank better? One JSON line per result.

    python benchmarks/position_bias.py                 # five seeds, 10,000 users to train on and 10,000 others to test on
    python benchmarks/position_bias.py --seeds 1 --ways ignore examination

The simulated shop shows items in slots that are examined with known probabilities, and an old ranker fills the slots
(`deep_interest.simulation.config.SlotConfig`). A model is trained on the first days of some users in four ways: without a thought of
slots (``ignore``), with the examination of each slot as a learned factor (``examination``), with a learned term of the log-odds
(``logit``), and with clicks weighted by the inverse of the harvested examination (``weights``). All of them rank the last days of other users.

- ``effect``: the learned effect of each slot, mean and 95 % interval over the seeds, next to the planted one.
- ``harvest``: the examination estimated from the training log alone, within impressions of one visit and category.
- ``gauc``: GAUC against the true relevance: the mean over all clicks that users could have made of a user's AUC, so that no
  draw of clicks and no slot has a part in it. The difference to ``ignore`` has a 95 % interval over users and seeds, paired by user.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from calibration import CONF, Shop
from kedro.config import OmegaConfigLoader
from machine import this_commit, this_machine
from numpy.typing import NDArray
from scipy.stats import t

from deep_interest.evaluation.metrics import UserAUC
from deep_interest.evaluation.position import harvested_examination
from deep_interest.evaluation.seed_variance import variance_over_seeds
from deep_interest.evaluation.significance import difference_interval, mean_over_seeds
from deep_interest.logs.tables import LOGGED_SLOT, TRUE_PROBABILITY
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.models.registry import build_model
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.retraining.fitting import held_out_scores
from deep_interest.simulation.config import SimulationConfig
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.training.runs import Data, Experiment, FittedSeed, fit_seed

DATASET = "simulated_slots"
WAYS = ("ignore", "examination", "logit", "weights")


def true_user_auc(
    users: NDArray[np.integer], relevance: NDArray[np.floating], scores: NDArray[np.floating]
) -> UserAUC:
    """Return the AUC of each user with fractional labels: a pair counts with the probability that its first row alone is clicked.

    Args:
        users: ``(n,)`` users.
        relevance: ``(n,)`` true click probabilities of examined impressions.
        scores: ``(n,)`` scores.
    """
    order = np.argsort(users, kind="stable")
    ids, first, sizes = np.unique(users[order], return_index=True, return_counts=True)
    values = np.full(len(ids), np.nan)
    for k in np.flatnonzero(sizes > 1):
        rows = order[first[k] : first[k] + sizes[k]]
        r, s = relevance[rows].astype(np.float64), scores[rows]
        weight = np.outer(r, 1 - r)
        np.fill_diagonal(weight, 0)
        won = (s[:, None] > s[None]) + 0.5 * (s[:, None] == s[None])
        values[k] = (weight * won).sum() / weight.sum()
    used = ~np.isnan(values)
    return UserAUC(ids[used], sizes[used], values[used], len(ids), len(users))


def effect_lines(
    way: str, curves: Sequence[dict[str, float]], planted: Sequence[float]
) -> Iterator[dict[str, object]]:
    """Yield the learned effect of each slot next to the planted examination."""
    for slot, truth in enumerate(planted, start=1):
        name = f"{'examination' if way == 'examination' else 'log_odds'}_{slot}"
        values = np.array([row[name] for row in curves])
        width = (
            t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
            if len(values) > 1
            else np.nan
        )
        line = {
            "case": "effect",
            "way": way,
            "slot": slot,
            "planted": truth,
            "learned": round(values.mean(), 4),
            "half_width": round(width, 4),
        }
        if way == "examination":
            line["error"] = round(values.mean() / truth - 1, 4)
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="din")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--train-blocks", type=int, default=1, help="blocks of 10,000 users to train on")
    parser.add_argument("--test-blocks", type=int, default=1, help="blocks of 10,000 users to test on")
    chosen = parser.parse_args()
    parameters = OmegaConfigLoader(str(CONF), base_env="base", default_run_env="base", merge_strategy={"parameters": "soft"})["parameters"]  # fmt: skip
    settings = DatasetParameters.model_validate(parameters["datasets"][DATASET])
    blocks = chosen.train_blocks + chosen.test_blocks
    simulation = SimulationConfig.model_validate(parameters["simulation"]).changed(
        settings.simulation | {"users": blocks * SimulationConfig().block_users}
    )
    assert simulation.slots is not None
    planted = simulation.slots.examination
    facts = {
        "bench": "position_bias",
        "model": chosen.model,
        "machine": this_machine(),
        "commit": this_commit(),
    }

    def say(line: dict[str, object]) -> None:
        print(json.dumps(facts | line), flush=True)

    shop, vocabularies = Shop(settings, simulation), FieldVocabularies()
    data = shop.data(range(chosen.train_blocks), vocabularies)
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    test = shop.data(range(chosen.train_blocks, blocks), frozen)
    rows = test.samples[test.samples["split"] == "test"]
    truth = rows[TRUE_PROBABILITY].to_numpy() / np.array(planted)[rows[LOGGED_SLOT].to_numpy() - 1]
    say(_raw_ctr(data, planted))
    say(_harvest(data, planted))
    scored: dict[str, list[UserAUC]] = {way: [] for way in chosen.ways}
    for way in chosen.ways:
        curves = []
        for seed in range(1, chosen.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                experiment = _experiment(chosen.model, way, parameters, settings, folder)
                fitted = fit_seed(experiment, data, seed)
            curves.append(fitted.history[-1])
            scores = _scores(experiment, data, fitted, test)
            scored[way].append(true_user_auc(rows["user"].to_numpy(), truth, scores))
            say({"case": "seed", "way": way, "seed": seed, "gauc": round(scored[way][-1].gauc().value, 5)})
        if way in ("examination", "logit"):
            for line in effect_lines(way, curves, planted):
                say(line)
    say(
        {
            "case": "gauc",
            "way": "oracle",
            "gauc": round(true_user_auc(rows["user"].to_numpy(), truth, truth).gauc().value, 5),
        }
    )
    for way, of_seeds in scored.items():
        say(_gauc_line(way, of_seeds, scored.get("ignore")))


def _gauc_line(way: str, ours: list[UserAUC], base: list[UserAUC] | None) -> dict[str, object]:
    line = {
        "case": "gauc",
        "way": way,
        "gauc": round(mean_over_seeds(ours).gauc().value, 5),
        "seeds": len(ours),
    }
    if way == "ignore" or base is None:
        return line
    variances = [variance_over_seeds(of) for of in (ours, base)] if len(ours) > 1 else []
    found = difference_interval(mean_over_seeds(ours), mean_over_seeds(base), seeds=variances)
    ends = {name: round(getattr(found, name), 5) for name in ("difference", "low", "high")}
    return line | ends | {"p_value": float(f"{found.p_value:.2g}")}


def _raw_ctr(data: Data, planted: Sequence[float]) -> dict[str, object]:
    train = data.samples[data.samples["split"] == "train"]
    ctr = train.groupby(LOGGED_SLOT)["label"].mean().to_numpy()
    return {
        "case": "raw",
        "samples": len(train),
        "ctr": ctr.round(4).tolist(),
        "relative": (ctr / ctr[0]).round(4).tolist(),
        "planted": list(planted),
    }


def _harvest(data: Data, planted: Sequence[float]) -> dict[str, object]:
    train = data.samples[data.samples["split"] == "train"]
    visit = train.groupby(["user", "history_end"]).ngroup().to_numpy(np.int64)
    category = data.features.items["category"][train["item"]].astype(np.int64)
    groups = visit * (category.max() + 1) + category
    found = harvested_examination(groups, train[LOGGED_SLOT], train["label"])
    return {
        "case": "harvest",
        "examination": found.round(4).tolist(),
        "error": (found / planted - 1).round(4).tolist(),
    }


def _scores(experiment: Experiment, data: Data, fitted: FittedSeed, test: Data) -> NDArray[np.float32]:
    config, options = experiment.config_and_options()
    model = build_model(experiment.model, config, data.features.schema)
    model.load_state_dict({name: torch.from_numpy(values) for name, values in fitted.state.items()})
    return held_out_scores(model, data.features.schema, test, experiment, options.model_dump())


def _experiment(
    model: str, way: str, parameters: dict, settings: DatasetParameters, folder: str
) -> Experiment:
    recipes = Recipes(parameters["recipes"]).root
    recipe = recipes[settings.recipe]
    recipe = recipe.model_copy(update={"training": recipe.training | settings.training})
    run = RunParameters(device="cpu", threads=1, processes=1, workspace=folder, options={"position": way})
    return Experiment(DATASET, model, RowOptions(parameters["models"][model]), recipe, (1,), run)


if __name__ == "__main__":
    main()
