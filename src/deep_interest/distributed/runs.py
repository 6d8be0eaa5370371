"""Train all seeds of an experiment on all ranks, and predict with the checkpoint; rank 0 has the results."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from deep_interest.distributed import group
from deep_interest.distributed.environment import Ranks, current_ranks, require_torchrec
from deep_interest.distributed.fit import (
    RankFit,
    logits_on_ranks,
    predict_on_ranks,
    sharded_parameters,
    share_tables,
)
from deep_interest.distributed.optimizer import ShardedUnknownRows
from deep_interest.distributed.plan import require_memory
from deep_interest.distributed.shards import Shard, empty_rows, initial_rows, own_shard
from deep_interest.errors import InputError
from deep_interest.logs.samples import SPLITS
from deep_interest.models.embeddings import Table, embedding_tables, tables_with_rows, tables_without_rows
from deep_interest.models.registry import build_model, find_model
from deep_interest.training.content import Data
from deep_interest.training.data import FeatureStore, SampleSet
from deep_interest.training.distillation import booster_of
from deep_interest.training.experiment import Experiment
from deep_interest.training.occurrences import occurrences_of
from deep_interest.training.parameters import RunParameters, TrainingOptions
from deep_interest.training.regularizers import occurrence_key
from deep_interest.training.runs import (
    Checkpoint,
    FittedSeed,
    checkpoint_of,
    described,
    fit_seed,
    predict_experiment,
    prepare_device,
    require_same_data,
    untrained,
)
from deep_interest.training.state import fingerprint
from deep_interest.training.unknown import UnknownRows


def train_on_ranks(experiment: Experiment, data: Data) -> tuple[Checkpoint, pd.DataFrame]:
    """Fit all seeds of an experiment on all ranks; finished fits are loaded.

    Returns:
        As `training.runs.train_experiment` on rank 0; on the others the checkpoint has no parameters.

    Raises:
        InputError: the training options are not available on several ranks.
    """
    join(experiment.run)
    closed_form = find_model(experiment.model).closed_form
    if not closed_form and experiment.config_and_options()[1].histories == "random":
        raise InputError(
            f"{experiment.name}: histories: random is not available on several processes; set histories to preceding, or train in one process"
        )
    seeds = experiment.seeds[:1] if closed_form else experiment.seeds
    identity = group.from_rank_0(data.fingerprint() if group.rank() == 0 else "")
    fits = [
        _fit_on_rank_0(experiment, data, seed) if closed_form else fit_on_ranks(experiment, data, seed, identity)[0]
        for seed in seeds
    ]  # fmt: skip
    return checkpoint_of(experiment, data.features.schema, identity, seeds, fits)


def join(run: RunParameters) -> Ranks:
    """Join the process group.

    Raises:
        InputError: TorchRec is not installed, or the device is not the CPU.
    """
    require_torchrec()
    ranks = current_ranks()
    assert ranks is not None
    if prepare_device(run).type != "cpu":
        raise InputError(
            f"training.device: found {run.device}, but training on several processes runs on CPUs; set training.device=cpu"
        )
    group.join_ranks()
    return ranks


def _fit_on_rank_0(experiment: Experiment, data: Data, seed: int) -> FittedSeed:
    """Fit a model that is computed in one step, on rank 0."""
    return fit_seed(experiment, data, seed) if group.rank() == 0 else FittedSeed({}, [])


def fit_on_ranks(
    experiment: Experiment, data: Data, seed: int, identity: str
) -> tuple[FittedSeed, nn.Module]:
    """Fit one seed of an experiment on all ranks, or load the fit if it is finished.

    Args:
        experiment: the experiment.
        data: samples, features and log.
        seed: seed of the fit.
        identity: fingerprint of the data.

    Returns:
        The finished fit, whose parameters only rank 0 has, and the model with the rows of this rank.
    """
    config, options = experiment.config_and_options()
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    train, validation, test = (
        SampleSet.build(store, data.samples, split, max_len=options.max_len) for split in SPLITS
    )
    booster = booster_of(experiment)
    if booster is not None:
        _, net = fit_on_ranks(booster, data, seed, identity)
        samples = replace(train, max_len=booster.config_and_options()[1].max_len)
        logits = logits_on_ranks(net, samples, batch_size=experiment.run.evaluation_batch_size)
        train = replace(train, booster_logits=logits)
    _require_memory(experiment, data)
    torch.manual_seed(seed)
    with tables_with_rows(initial_rows):
        model = build_model(experiment.model, config, data.features.schema)
    for table in embedding_tables(model):
        if table.keep_top:
            table.keep_most_frequent(occurrences_of([table], train)[occurrence_key(table)])
    exchange = share_tables(model)
    occurrences, unknown = _occurrences(model, train, fill=options.unknown == "mean")
    folder = Path(experiment.run.workspace) / experiment.dataset / experiment.model_variant
    fit = RankFit(
        label=f"{experiment.name}, seed {seed}", model=model, train=train, validation=validation, options=options, seed=seed,
        state_file=folder / f"seed_{seed}.ranks",
        fingerprint=fingerprint(*described(experiment, data.features.schema, torch.device("cpu"), booster), seed, identity),
        watched=test if options.watch_test else None, occurrences=occurrences, unknown=unknown,
        evaluation_batch_size=experiment.run.evaluation_batch_size, checkpoint_seconds=experiment.run.checkpoint_seconds,
        exchange=exchange,
    )  # fmt: skip
    history = fit.run().history
    state = fit.whole_state(folder) if group.rank() == 0 else {}
    group.all_agree(True)
    return FittedSeed(state, history), model


def _require_memory(experiment: Experiment, data: Data) -> None:
    config, options = experiment.config_and_options()
    with tables_without_rows(), torch.device("meta"):  # shapes alone
        model = build_model(experiment.model, config, data.features.schema)
    tables = {name: module for name, module in model.named_modules() if isinstance(module, Table)}
    ranks = current_ranks()
    if tables and ranks is not None:
        require_memory(tables, ranks, copies=3 if options.optimizer == "adam" else 1)


def _occurrences(model: nn.Module, train: SampleSet, *, fill: bool):
    """Return n_j of own rows, and what sets the untrained ones if ``fill``."""
    tables = embedding_tables(model)
    whole = occurrences_of(tables, train)
    unknown = ShardedUnknownRows(UnknownRows.of(model, whole)) if fill else None
    return {key: _own_rows(counts) for key, counts in whole.items()}, unknown


def _own_rows(values: torch.Tensor) -> torch.Tensor:
    shard: Shard = own_shard(len(values))
    return values[shard.begin : shard.end].clone()


def predict_with_ranks(
    checkpoint: Checkpoint, run: RunParameters, data: Data, *, split: str = "test"
) -> pd.DataFrame:
    """Score a split with the parameters of each seed, on all ranks: each has a part of the tables in memory.

    Returns:
        As `training.runs.predict_experiment`.

    Raises:
        InputError: the checkpoint was trained on other data.
    """
    join(run)
    if find_model(checkpoint["model"]).closed_form:
        return predict_experiment(checkpoint, run, data, split=split) if group.rank() == 0 else pd.DataFrame()
    identity = group.from_rank_0(data.fingerprint() if group.rank() == 0 else "")
    require_same_data(checkpoint, identity)
    options = TrainingOptions.model_validate_json(checkpoint["training"])
    store = FeatureStore.build(data.log, data.features, torch.device("cpu"))
    chosen = SampleSet.build(store, data.samples, split, max_len=options.max_len)
    scores = {
        f"seed_{seed}": predict_on_ranks(_restore(checkpoint, seed), chosen, batch_size=run.evaluation_batch_size)
        for seed in checkpoint["seeds"]
    }  # fmt: skip
    rows = data.samples.loc[data.samples["split"] == split, ["user", "item"]]
    predictions = rows.reset_index(drop=True).assign(**scores)
    predictions.attrs["data"] = identity
    return predictions


def _restore(checkpoint: Checkpoint, seed: int) -> nn.Module:
    """Build the model of a checkpoint with the parameters of a seed and the rows of this rank."""
    with tables_with_rows(empty_rows):
        model = untrained(checkpoint, seed)
    tables = sharded_parameters(model)
    state = checkpoint["states"][checkpoint["seeds"].index(seed)]
    model.load_state_dict(
        {name: _own_rows(tensor) if name in tables else tensor for name, tensor in state.items()}
    )
    share_tables(model)
    return model
