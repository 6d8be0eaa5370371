"""A small leaderboard for tests; as a script it runs one: ``python leaderboard.py FOLDER N_TRIALS WORKERS EPOCHS``."""

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
from support.training import small_data
from support.tuning import seen_data

from deep_interest.evaluation.comparison import ModelRuns
from deep_interest.models.registry import MODELS
from deep_interest.training.parameters import Recipe, RowOptions, RunParameters
from deep_interest.training.runs import Data, Experiment, predict_experiment, train_experiment
from deep_interest.tuning.leaderboard import leaderboard_search, result_of, search_all, trials_of
from deep_interest.tuning.leaderboard_table import leaderboard_table
from deep_interest.tuning.parameters import SearchRange, SearchRanges, TuningParameters
from deep_interest.tuning.policy import LeaderboardParameters

OPTIONS = {"popularity": {}, "item_knn": {}, "lr": {}, "base": {}, "din_mba": {"training": {"mba": 0.01}}}
RANGES = SearchRanges(
    training={
        "learning_rate": SearchRange(low=1e-3, high=0.1, log=True),
        "l2": SearchRange(low=1e-6, high=1e-2, log=True),
        "mba": SearchRange(low=1e-3, high=10, log=True),
    },
    model={"hidden": SearchRange(choices=[[8], [8, 4]]), "shrinkage": SearchRange(low=1, high=100, log=True)},
)
TIMINGS = [
    "train_seconds",
    "processor_seconds",
    "samples_per_second",
    "search_processor_seconds",
    "refit_seconds",
]


def small_leaderboard(**changes) -> LeaderboardParameters:
    """Return a leaderboard with few trials and seeds."""
    searched = ("training.learning_rate", "training.l2", "training.mba", "model.hidden")
    settings = {"n_trials": 6, "seeds": (1, 2), "models": {"item_knn": ("model.shrinkage",)}, **changes}
    return LeaderboardParameters(ranges=RANGES, searched=searched, **settings)


def searches_of(
    folder: Path, data: Data, *, models=tuple(OPTIONS), workers=1, epochs=3, tuning=None, **changes
):
    """Return the searches of a small leaderboard by model key."""
    recipe = Recipe(
        training={"epochs": epochs, "batch_size": 32, "patience": epochs},
        model={"embedding_dim": 4, "hidden": (8,), "attention_hidden": (8,)},
    )
    run = RunParameters(workspace=str(folder), device="cpu", threads=1, processes=1)
    settings = TuningParameters(
        ranges=RANGES, searched=("training.l2",), workers=workers,
        **{"random_trials": 3, "unpruned_trials": 2, **(tuning or {})},
    )  # fmt: skip
    searches = {}
    for model in models:
        experiment = Experiment(
            dataset="small", model=model, options=RowOptions(OPTIONS[model]), recipe=recipe, seeds=(1,), run=run,
            variant="_leaderboard",
        )  # fmt: skip
        searches[model] = leaderboard_search(
            experiment,
            data,
            leaderboard=small_leaderboard(**changes),
            tuning=settings,
            recipe="small",
            of_dataset={},
        )
    return searches


def run_leaderboard(folder: Path, *, users: int = 60, **options) -> tuple[dict, pd.DataFrame, pd.DataFrame]:
    """Search, fit and compare.

    Returns:
        What was found by model key, the trials, and the table.
    """
    data, seen = small_data(users=users), seen_data(users=users)
    searches = searches_of(folder, seen, **options)
    studies = search_all(searches, seen, refits=2)
    found = {model: result_of(search, studies.get(model), "data") for model, search in searches.items()}
    runs = {model: _fitted(search, found[model], data) for model, search in searches.items()}
    base = "base" if "base" in runs else "lr"
    test = data.samples[data.samples["split"] == "test"].reset_index(drop=True)
    table = leaderboard_table(test, runs, found, base=base, simple=["popularity", "item_knn", "lr"])
    return found, trials_of(searches, studies), table


def _fitted(search, result, data: Data) -> ModelRuns:
    experiment = search.experiment
    recipe = experiment.recipe.with_values(experiment.model, result["values"])
    tuned = replace(experiment, recipe=recipe, seeds=(1, 2))
    checkpoint, curves = train_experiment(tuned, data)
    predictions = predict_experiment(checkpoint, experiment.run, data).filter(like="seed_")
    best = curves.groupby("seed")["validation_gauc"].max()
    seconds = curves.groupby("seed")["seconds"].last().to_numpy()
    return ModelRuns(
        MODELS[experiment.model].name, tuple(checkpoint["seeds"]), predictions.to_numpy().T, train_seconds=seconds,
        samples_per_second=seconds, validation_gauc=float(best.mean()), deterministic=MODELS[experiment.model].closed_form,
    )  # fmt: skip


def without_timings(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without the columns that are measured."""
    return table.drop(columns=[name for name in TIMINGS if name in table])


def main() -> None:
    """Run a leaderboard and write its tables."""
    folder, n_trials, workers, epochs = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    models = ("popularity", "lr", "din_mba")
    _, trials, table = run_leaderboard(
        folder, models=models, n_trials=n_trials, workers=workers, epochs=epochs, users=200
    )
    without_timings(trials).to_csv(folder / "trials.csv", index=False)
    without_timings(table).to_csv(folder / "results.csv", index=False)


if __name__ == "__main__":
    main()
