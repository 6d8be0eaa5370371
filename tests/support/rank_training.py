"""Train models on the ranks that ``torchrun`` has started, or in one process, and write what a test compares.

    torchrun --nproc-per-node=2 tests/support/rank_training.py FOLDER '{"models": {"din": {}}, "training": {"optimizer": "sgd"}}'

Without ``torchrun`` the same command trains in one process. The log losses of all steps, parameters and predictions go to
``FOLDER/<model>.npz``; on several ranks only rank 0 writes.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from support.threads import require_no_gloo_threads
from support.training import small_data, with_prices, with_tags

from deep_interest.distributed.environment import current_ranks
from deep_interest.distributed.group import end_with_launcher, leave_ranks
from deep_interest.training.experiment import Experiment
from deep_interest.training.loop import Fit
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import predict_experiment, train_experiment

SMALL = {"embedding_dim": 4, "hidden": [8, 4], "attention_hidden": [8, 4]}
KINDS = {
    "plain": small_data,
    "tags": lambda: with_tags(small_data()),
    "prices": lambda: with_prices(small_data()),
}


def main(folder: Path, settings: dict) -> None:
    torch.set_num_threads(1)
    ranks = current_ranks()
    if ranks is not None:
        end_with_launcher()
    losses = _record_losses()
    _kill_at(settings.get("kill"))
    for model, options in settings["models"].items():
        losses.clear()
        recipe = Recipe(
            training={"batch_size": 64, "epochs": 2, "patience": 9} | settings.get("training", {}),
            model=SMALL,
        )
        run = RunParameters(
            workspace=str(folder), processes=1, checkpoint_seconds=settings.get("checkpoint_seconds", 60),
            evaluation_batch_size=50, device="cpu",
        )  # fmt: skip
        experiment = Experiment("small", model, RowOptions(options), recipe, (settings.get("seed", 1),), run)
        data = KINDS[settings.get("data", "plain")]()
        if ranks is None:
            checkpoint, curves = train_experiment(experiment, data)
            predictions = predict_experiment(checkpoint, run, data)
        else:
            from deep_interest.distributed.runs import predict_with_ranks, train_on_ranks

            checkpoint, curves = train_on_ranks(experiment, data)
            checkpoint = _shared(checkpoint, folder / f"{model}.pt", ranks.rank)
            predictions = predict_with_ranks(checkpoint, run, data)
        if ranks is None or ranks.rank == 0:
            state = {f"state.{name}": tensor.numpy() for name, tensor in checkpoint["states"][0].items()}
            scores = predictions.filter(like="seed_").to_numpy()
            np.savez(
                folder / f"{model}.npz", losses=np.array(losses), scores=scores,
                curves=curves.drop(columns=["seconds"]).to_numpy(np.float64), **state,
            )  # fmt: skip
    leave_ranks()
    require_no_gloo_threads()


def _shared(checkpoint: dict, path: Path, rank: int) -> dict:
    """Save the checkpoint of rank 0 and load it on all ranks, as Kedro's catalog does."""
    from deep_interest.distributed import group

    if rank == 0:
        torch.save(checkpoint, path)
    group.all_agree(True)
    return torch.load(path, weights_only=True, mmap=True)


def _record_losses() -> list[float]:
    """Record the loss of every step of every fit."""
    losses: list[float] = []
    plain = Fit._train_steps

    def train_steps(fit, order, until, bar):
        inner = fit.train_step

        def train_step(rows):
            found = inner(rows)
            losses.append(float(found[0]))
            return found

        vars(fit)["train_step"] = train_step
        try:
            plain(fit, order, until, bar)
        finally:
            del vars(fit)["train_step"]

    Fit._train_steps = train_steps
    return losses


def _kill_at(kill: dict | None) -> None:
    """Kill a rank, or its launcher, after a step, in the first attempt only: ``{"rank": 0, "step": 7}`` or ``{"launcher": …}``."""
    ranks = current_ranks()
    if (
        kill is None
        or ranks is None
        or int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        or Path(kill["mark"]).exists()
    ):
        return
    if ranks.rank != kill["rank"]:
        return
    from deep_interest.distributed.fit import RankFit

    plain = RankFit.train_step

    def train_step(fit, rows):
        found = plain(fit, rows)
        if fit.progress.total_steps + 1 == kill["step"]:
            Path(kill["mark"]).touch()
            os.kill(os.getppid() if kill.get("launcher") else os.getpid(), signal.SIGKILL)
        return found

    RankFit.train_step = train_step


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
