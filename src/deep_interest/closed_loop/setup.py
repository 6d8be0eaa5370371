"""The worlds of a simulated test: the test itself, and one with all users in each arm."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.closed_loop.day import Shop
from deep_interest.closed_loop.http_ranker import ServiceArm
from deep_interest.closed_loop.log import WorldLog
from deep_interest.closed_loop.nightly import ModelArm, Nights, OwnUsers, TrainingLog
from deep_interest.closed_loop.rankers import Oracle, Popularity, Random
from deep_interest.closed_loop.version_ranker import CONTEXT, VersionRanker
from deep_interest.closed_loop.world import Arm, Fixed, Learner, NothingToLearn, World, block_of
from deep_interest.errors import InputError, did_you_mean
from deep_interest.logs.feature_columns import FeatureColumns
from deep_interest.logs.protocol_parameters import ProtocolParameters
from deep_interest.models.registry import MODELS
from deep_interest.retraining.days import ReaderConfig
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.retraining.runs import retraining_experiment
from deep_interest.serving.registry import Registry
from deep_interest.serving.version import Version
from deep_interest.simulation.config import SimulationConfig
from deep_interest.simulation.shop_parameters import RankerParameters, SimulatedTestParameters
from deep_interest.training.experiment import Experiment
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters

TEST = "test"
"""Name of the world with all arms."""


def splits_of(parameters: ABTestParameters) -> dict[str, dict[str, float]]:
    """Return the split of each world by name: that of the test, and those in which all users are in one arm after the A/A test.

    In a world of one arm the control is there too, without users: its ranker serves the A/A test.
    """
    test = parameters.simulation
    worlds = {TEST: dict(parameters.split)}
    if test is not None and test.counterfactuals:
        for arm in parameters.split:
            worlds[f"all_{arm}"] = {parameters.control: 0.0} | {arm: 1.0}
    return worlds


@dataclass(frozen=True)
class Training:
    """How the models of the arms are trained.

    Attributes:
        settings: parameters of the dataset whose tables the shop writes, with ``recipe`` and ``training``.
        reading: how the days are read; the shop adds its context features.
        protocol: protocol of the samples.
        models: options of all models by key.
        recipes: all recipes.
        run: device, workspace, recipe.
        retraining: parameters of retraining.
    """

    settings: Any
    reading: ReaderConfig
    protocol: ProtocolParameters
    models: Mapping[str, Any]
    recipes: Recipes
    run: RunParameters
    retraining: RetrainingParameters


def shop_of(simulation: SimulationConfig, test: SimulatedTestParameters) -> Shop:
    """Return the shop of a test.

    Raises:
        InputError: the simulation has actions, which clicks in the shop do not have.
    """
    days = {"impression_days": test.phases.total}
    config = simulation.changed({**test.shop, **days})
    if config.actions is not None:
        raise InputError(
            "simulation.actions: behaviours in a shop with rankers are all alike; remove actions"
        )
    return Shop(config, test.traffic, test.auction)


def build_world(
    name: str, split: Mapping[str, float], folder: Path, shop: Shop, parameters: ABTestParameters, training: Training
) -> tuple[World, Learner]:  # fmt: skip
    """Return a world and what trains its models.

    Args:
        name: name of the world, and of its folder.
        split: share of the users of each arm that exists in it.
        folder: folder of all worlds.
        shop: the shop.
        parameters: parameters of the test.
        training: how the models are trained.

    Raises:
        InputError: an arm names an unknown model, or the days were simulated with other parameters.
    """
    test = parameters.simulation
    assert test is not None
    log = WorldLog(folder / name, shop.config)
    control, start = parameters.control, test.phases.warm_up + test.phases.aa
    retraining = _changed(training.retraining, test.retraining)
    features = training.reading.features.model_copy(update={"context": CONTEXT})
    reading = ReaderConfig(
        training.reading.source, features, training.reading.on_bad_line, training.reading.tie_seed,
        training.reading.repeated_impressions,
    )  # fmt: skip
    experiments = {
        arm: _experiment(arm, str(test.arms[arm].model), log.folder, training, retraining)
        for arm in split
        if test.arms[arm].model is not None
    }
    log.check_settings(_settings(shop, parameters, split, retraining, experiments))
    models: dict[str, ModelArm] = {}
    for arm, experiment in experiments.items():
        serves = range(
            test.phases.warm_up if arm == control else start, test.phases.total if split[arm] else start
        )
        models[arm] = ModelArm(
            name=arm, experiment=experiment, registry=Registry(log.folder / "registries" / arm), log=log, reading=reading,
            nights=range(serves.start - 1, serves.stop - 1), fallback=_popularity(shop),
            training_log=TrainingLog(
                shop.config.seed, retraining.calibration.negatives_kept,
                None if test.training_log == "pooled" else OwnUsers(dict(split), arm, log.name(start)),
            ),
        )  # fmt: skip
    arms: dict[str, Arm] = {
        arm: models[arm] if arm in models else _arm(test.arms[arm], shop, features, training.run)
        for arm in split
    }
    world = World(shop, log, test.phases, arms, split, control, range(shop.config.blocks))
    learner = Nights(models, log, reading, training.protocol, retraining) if models else NothingToLearn()
    return world, learner


def _arm(parameters: RankerParameters, shop: Shop, features: FeatureColumns, run: RunParameters) -> Arm:
    if parameters.service is not None:
        return ServiceArm(parameters.service)
    if parameters.registry is not None:
        return Fixed(
            VersionRanker(_version(Path(parameters.registry), parameters.version), shop.config, features, run)
        )
    if parameters.ranker == "oracle":
        noise = parameters.noise
        return Fixed(Oracle(noise, f"oracle with noise {noise:g}") if noise else Oracle())
    return Fixed(_popularity(shop) if parameters.ranker == "popularity" else Random())


def _version(folder: Path, name: str | None) -> Version:
    registry = Registry(folder)
    if name is not None:
        return registry.load(name)
    if (champion := registry.champion()) is None:
        raise InputError(
            f"{folder}: no version serves; name one of those in the folder with version ({', '.join(registry.names()) or 'there is none'})"
        )
    return champion


def _popularity(shop: Shop) -> Popularity:
    return Popularity.of(shop.config, block_of(shop.config, 0))


def _experiment(
    arm: str, model: str, folder: Path, training: Training, retraining: RetrainingParameters
) -> Experiment:
    if model not in MODELS:
        raise InputError(f"simulation.arms.{arm}: {model} is not a model{did_you_mean(model, list(MODELS))}")
    run = training.run.model_copy(update={"workspace": str(folder / "fits" / arm)})
    return retraining_experiment(
        "simulated", model, RowOptions.model_validate(training.models[model]), training.settings, training.recipes, run, retraining
    )  # fmt: skip


def _changed(retraining: RetrainingParameters, changes: Mapping[str, Any]) -> RetrainingParameters:
    """Return the parameters with some changes; those of a nested block are merged."""
    values = retraining.model_dump()
    for name, change in changes.items():
        nested = isinstance(change, Mapping) and isinstance(values.get(name), Mapping)
        values[name] = {**values[name], **change} if nested else change
    return RetrainingParameters.model_validate(values)


def _settings(
    shop: Shop, parameters: ABTestParameters, split: Mapping[str, float], retraining: RetrainingParameters,
    experiments: Mapping[str, Experiment],
) -> dict[str, Any]:  # fmt: skip
    """Return everything that determines the days of a world."""
    test = parameters.simulation
    assert test is not None
    return {
        "shop": shop.config.model_dump(mode="json"),
        "traffic": test.traffic.model_dump(mode="json"),
        "auction": test.auction.model_dump(mode="json"),
        "phases": test.phases.model_dump(mode="json"),
        "split": dict(split),
        "control": parameters.control,
        "arms": {arm: test.arms[arm].model_dump(mode="json") for arm in split},
        "training_log": test.training_log,
        "retraining": retraining.model_dump(mode="json") if experiments else None,
        "models": {
            arm: [part.model_dump(mode="json") for part in experiment.config_and_options()]
            for arm, experiment in experiments.items()
        },
    }
