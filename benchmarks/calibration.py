"""Predicted next to true click probabilities of the simulated shop, by decile of the prediction: one JSON line per model and decile.

    python benchmarks/calibration.py                       # a full training log, and one with a quarter of the negatives
    python benchmarks/calibration.py --blocks 4 --train-blocks 1

A model is trained on the first days of some users, and predicts the last three days of other users, half of whom calibrate it
(`deep_interest.retraining.calibration`, as in `kedro run --pipelines=retrain.…`). The lines are about the other half, with all negatives:
``observed`` is predicted over observed clicks, with its 95 % interval over users, and ``true`` is predicted over the mean of the
probabilities with which the simulation drew the clicks, which has hardly any noise of its own.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from kedro.config import OmegaConfigLoader
from machine import this_commit, this_machine

from deep_interest.evaluation import calibration_by_segment, correct_for_sampling, deciles, gauc, logloss
from deep_interest.logs.canonical import canonical
from deep_interest.logs.encoded_log import encode_log
from deep_interest.logs.encoding import behavior_log, encode_behaviors, encode_features
from deep_interest.logs.impressions import impression_samples
from deep_interest.logs.tables import TRUE_PROBABILITY, CanonicalTables
from deep_interest.logs.vocabulary import FieldVocabularies, Vocabulary
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.retraining.calibration import fit_calibration
from deep_interest.retraining.fitting import FittedModel, fit_challenger, held_out_scores
from deep_interest.retraining.parameters import CalibrationParameters, RetrainingParameters
from deep_interest.retraining.runs import retraining_experiment
from deep_interest.simulation.behaviors import behavior_block
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.impressions import impression_block
from deep_interest.simulation.users import user_block
from deep_interest.simulation.world import make_items
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters
from deep_interest.training.runs import Data, Experiment

CONF = Path(__file__).parents[1] / "conf"
TEST_DAYS = 3
KEPT = 0.25


class Shop:
    """The simulated shop, some blocks of users at a time.

    Args:
        settings: parameters of the dataset.
        simulation: parameters of the log.
    """

    def __init__(self, settings: DatasetParameters, simulation: SimulationConfig) -> None:
        self.settings, self.simulation = settings, simulation

    def data(self, blocks: Sequence[int], vocabularies: FieldVocabularies, *, kept: float = 1.0) -> Data:
        """Return the samples of some blocks of users; a share of the negatives before the last days is kept."""
        simulation, features = self.simulation, self.settings.features
        parts = [
            [make(simulation, block) for block in blocks]
            for make in (behavior_block, impression_block, user_block)
        ]
        behaviors, impressions, users = (pd.concat(part, ignore_index=True) for part in parts)
        chosen = (impressions["label"] == 1) | (
            np.random.default_rng([blocks[0], 1]).random(len(impressions)) < kept
        )
        tables = canonical(CanonicalTables(behaviors, make_items(simulation), users, impressions[chosen]))
        log = encode_log(
            tables, users=Vocabulary.fit(tables.users["user"]), items=Vocabulary.fit(tables.items["item"])
        )
        protocol = self.settings.protocol.model_copy(update={"validation_days": 0, "test_days": TEST_DAYS})
        made = impression_samples(
            tables.impressions, log, protocol, features=features, vocabularies=vocabularies
        )
        own = encode_behaviors(tables.behaviors, features, vocabularies=vocabularies)
        coded = encode_features(
            tables, log, features, known_items=made.known_items, known_users=made.known_users, context=made.context, own=own,
            vocabularies=vocabularies,
        )  # fmt: skip
        return Data(behavior_log(log, coded, own), coded, made.samples.frame().assign(**made.columns))


def held_out(
    shop: Shop, models: dict[str, FittedModel], experiment: Experiment, vocabularies: FieldVocabularies, blocks: range
) -> Iterator[pd.DataFrame]:  # fmt: skip
    """Yield ``user, label, truth`` of the held-out impressions of each block, and the predictions of each model."""
    frozen = FieldVocabularies(vocabularies.fields, frozen=True)
    for block in blocks:
        data = shop.data([block], frozen)
        test = data.samples[data.samples["split"] == "test"]
        scores = {
            name: held_out_scores(
                fitted.model(experiment.model), fitted.schema, data, experiment, fitted.training
            )
            for name, fitted in models.items()
        }
        users = test["user"].to_numpy(np.int64) + block * shop.simulation.block_users
        yield pd.DataFrame(
            {"user": users, "label": test["label"].to_numpy(), "truth": test[TRUE_PROBABILITY].to_numpy(np.float64)} | scores
        )  # fmt: skip


def calibrated(table: pd.DataFrame, ctr: np.ndarray, kept: float) -> tuple[np.ndarray, np.ndarray]:
    """Fit the calibration as retraining does, on what is left of the negatives.

    Returns:
        Calibrated predictions ``(n,)``, and whether each row judges them.
    """
    parameters = CalibrationParameters(method="isotonic", negatives_kept=kept)
    users, labels = table["user"].to_numpy(), table["label"].to_numpy()
    logged = (labels == 1) | (np.random.default_rng(2).random(len(labels)) < kept)
    found = fit_calibration(users[logged], labels[logged], ctr[logged], parameters, kept=kept, seed=1)
    calibrating = np.isin(users, np.unique(users[logged][found.weights == 0]))
    return found.calibration(ctr), ~calibrating


def lines(table: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield the lines of all variants."""
    full, sampled = (table[name].to_numpy(np.float64) for name in ("full", "sampled"))
    isotonic, judged = calibrated(table, full, 1.0)
    with_map, also_judged = calibrated(table, sampled, KEPT)
    judged = judged & also_judged
    variants = {
        "full log": full,
        "full log, isotonic": isotonic,
        "a quarter of the negatives": sampled,
        "a quarter of the negatives, corrected": correct_for_sampling(sampled, negatives=KEPT),
        "a quarter of the negatives, corrected and isotonic": with_map,
    }
    test = table[judged]
    for variant, ctr in variants.items():
        yield from _decile_lines(variant, ctr[judged], test)


def _decile_lines(variant: str, ctr: np.ndarray, test: pd.DataFrame) -> Iterator[dict[str, object]]:
    tenth = deciles(ctr)
    of_decile = calibration_by_segment(test["label"], ctr, tenth, users=test["user"])
    for row in of_decile.itertuples():
        chosen = tenth == row.segment
        yield {
            "bench": "calibration", "model": variant, "decile": row.segment, "impressions": row.samples, "ctr": round(row.observed, 5),
            "true": round(ctr[chosen].sum() / test["truth"].to_numpy()[chosen].sum(), 4),
            "observed": round(row.ratio, 4), "low": round(row.ratio_low, 4), "high": round(row.ratio_high, 4),
        }  # fmt: skip
    yield {
        "bench": "calibration", "model": variant, "decile": "all", "impressions": len(test), "log_loss": round(logloss(test["label"], ctr), 6),
        "gauc": round(gauc(test["user"], test["label"], ctr).value, 10),
        "true": round(ctr.sum() / test["truth"].sum(), 4), "observed": round(ctr.sum() / test["label"].sum(), 4),
    }  # fmt: skip


def experiment_of(model: str, parameters: dict, folder: str) -> Experiment:
    """Return the experiment on the simulated shop, with the options of the configuration."""
    settings = DatasetParameters.model_validate(parameters["datasets"]["simulated"])
    run = RunParameters(device="cpu", threads=1, processes=1, workspace=folder)
    options = RowOptions(parameters["models"][model])
    return retraining_experiment(
        "simulated", model, options, settings, Recipes(parameters["recipes"]), run, RetrainingParameters()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="din")
    parser.add_argument("--train-blocks", type=int, default=2, help="blocks of 10,000 users to train on")
    parser.add_argument(
        "--blocks", type=int, default=60, help="blocks of 10,000 users to calibrate and judge with"
    )
    chosen = parser.parse_args()
    parameters = OmegaConfigLoader(
        str(CONF), base_env="base", default_run_env="base", merge_strategy={"parameters": "soft"}
    )["parameters"]
    users = (chosen.train_blocks + chosen.blocks) * SimulationConfig().block_users
    simulation = SimulationConfig.model_validate(parameters["simulation"] | {"users": users})
    shop = Shop(DatasetParameters.model_validate(parameters["datasets"]["simulated"]), simulation)
    vocabularies, models = FieldVocabularies(), {}
    with tempfile.TemporaryDirectory() as folder:
        experiment = experiment_of(chosen.model, parameters, folder)
        for name, kept in (("full", 1.0), ("sampled", KEPT)):
            data = shop.data(range(chosen.train_blocks), vocabularies, kept=kept)
            models[name] = fit_challenger(
                experiment, data, overrides={}, seed=1, state_file=Path(folder) / f"{name}.pt"
            )
        blocks = range(chosen.train_blocks, chosen.train_blocks + chosen.blocks)
        table = pd.concat(
            held_out(shop, models, experiment, vocabularies, blocks),
            ignore_index=True,
        )
    facts = {"machine": this_machine(), "commit": this_commit(), "trained_model": chosen.model}
    for line in lines(table):
        print(json.dumps(line | facts), flush=True)


if __name__ == "__main__":
    main()
