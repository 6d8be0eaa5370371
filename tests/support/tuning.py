"""A small search for tests; as a script it runs one: ``python tuning.py FOLDER N_TRIALS WORKERS EPOCHS [SERVER]``."""

import sys
from dataclasses import replace
from pathlib import Path

from support.training import small_data

from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Data, Experiment
from deep_interest.tuning.parameters import SearchRange, SearchRanges, TuningParameters
from deep_interest.tuning.search import tune
from deep_interest.tuning.study import Search

RANGES = SearchRanges(
    training={
        "mba": SearchRange(low=1e-3, high=100, log=True),
        "learning_rate": SearchRange(low=1e-3, high=0.1, log=True),
    }
)


def seen_data(**options) -> Data:
    """Return training and validation samples of the small log."""
    data = small_data(**options)
    return replace(data, samples=data.samples[data.samples["split"] != "test"].reset_index(drop=True))


def small_search(
    folder: Path, *, epochs: int = 3, ranges: SearchRanges = RANGES, training=None, **options
) -> Search:
    """Return a search of λ and the learning rate of a small DIN."""
    recipe = Recipe(
        training={"epochs": epochs, "batch_size": 32, "patience": epochs, **(training or {})},
        model={"embedding_dim": 4, "hidden": (8,), "attention_hidden": (8,)},
    )
    experiment = Experiment(
        dataset="small", model="din_mba", options=RowOptions({}), recipe=recipe, seeds=(1,),
        run=RunParameters(workspace=str(folder), device="cpu", threads=1),
    )  # fmt: skip
    searched = tuple(ranges.by_name())
    settings = {"n_trials": 6, "random_trials": 3, "unpruned_trials": 2, **options}
    return Search(experiment, TuningParameters(ranges=ranges, searched=searched, **settings), "small")


def data_to_kill() -> Data:
    """Return so many samples that a trial is still running when the test finds it and kills it."""
    return seen_data(users=600)


if __name__ == "__main__":
    folder, n_trials, workers, epochs = sys.argv[1], *map(int, sys.argv[2:5])
    server = {"storage": sys.argv[5], "lost_after_seconds": 4} if len(sys.argv) > 5 else {}
    tune(
        small_search(Path(folder), n_trials=n_trials, workers=workers, epochs=epochs, **server),
        data_to_kill(),
    )
