"""`deep-interest results`: earlier runs of a dataset, and how the results of two runs differ."""

from collections.abc import Iterator

import pandas as pd
from kedro.io import DatasetError

from deep_interest.commands.session import load_entries, read_configuration, require_dataset
from deep_interest.errors import InputError
from deep_interest.evaluation.history import (
    compare_runs,
    describe_run,
    find_run,
    list_runs,
    results_of,
    run_before,
)

LAST = "last"


def print_results(
    dataset: str, run: str | None, table: str | None, against: str | None, *, env: str | None = None
) -> Iterator[str]:
    """Describe the runs of a dataset, or the results of one run next to those of another.

    Args:
        dataset: key of the dataset.
        run: id of a run or its beginning, or ``last``; lists all runs if left out.
        table: table of the run; its first one if left out.
        against: run to compare with; the one before with the same table if left out.
        env: configuration environment.

    Raises:
        InputError: unknown dataset, run or table; the dataset has no results yet.
    """
    if run is None and (table or against):
        raise InputError(f"--{'table' if table else 'against'}: name a run with --run, such as --run {LAST}")
    configuration = read_configuration(env)
    require_dataset(configuration, dataset)
    try:
        (history,) = load_entries(configuration, [f"{dataset}.results_history"]).values()
    except DatasetError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError(f"{dataset}: no results yet; run `kedro run --pipelines={dataset}`") from error
        raise
    if run is None:
        yield from runs_table(history)
    else:
        yield from results_table(history, run, table, against)


def runs_table(history: pd.DataFrame) -> Iterator[str]:
    """Yield one line per run, newest first."""
    runs = list_runs(history)
    yield from _aligned(runs.assign(gauc=runs["gauc"].map("{:.4f}".format)))


def results_table(history: pd.DataFrame, run: str, table: str | None, against: str | None) -> Iterator[str]:
    """Yield the results of a run, sorted by GAUC, with the change since another run.

    Args:
        history: history of a dataset.
        run: id of the run or its beginning, or ``last``.
        table: table of the run.
        against: id of the run to compare with or its beginning.
    """
    run, table = find_run(history, str(history["run"].iloc[-1]) if run == LAST else run, table)
    other = find_run(history, against, table, "--against")[0] if against else run_before(history, run, table)
    yield f"run {run}, {table}: {describe_run(history, run)}"
    results = results_of(history, run, table).sort_values("gauc", ascending=False, kind="stable")
    shown = results[["name", "gauc", "auc", "logloss"]].astype(
        {"gauc": float, "auc": float, "logloss": float}
    )
    if other is not None:
        yield f"run {other}, compared with: {describe_run(history, other)}"
        compared = compare_runs(results_of(history, other, table), results).set_index("model")["change"]
        shown["GAUC change"] = results["model"].map(compared).map("{:+.4f}".format).replace("+nan", "new")
    yield ""
    for column in ("gauc", "auc", "logloss"):
        shown[column] = shown[column].map("{:.4f}".format)
    yield from _aligned(shown.rename(columns={"gauc": "GAUC", "auc": "AUC", "logloss": "log loss"}))


def _aligned(table: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of a table whose first column is aligned to the left, the others to the right."""
    first = table.columns[0]
    names = [str(name) for name in (first, *table[first])]
    width = max(map(len, names))
    rest = table.drop(columns=first).to_string(index=False, na_rep="").splitlines()
    for name, line in zip(names, rest, strict=True):
        yield f"{name:{width}}  {line}".rstrip()
