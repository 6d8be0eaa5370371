"""`deep-interest results`: the results of earlier runs of a dataset."""

from collections.abc import Iterator

import pandas as pd
from kedro.io import DatasetError

from deep_interest.commands.session import open_project, require_dataset
from deep_interest.errors import InputError
from deep_interest.evaluation.history import find_run, gauc_changes, list_runs

_COLUMNS = {
    "name": "{}", "gauc": "{:.4f}", "gauc_std": "{:.4f}", "auc": "{:.4f}", "logloss": "{:.4f}", "difference": "{:+.4f}",
    "seeds": "{:.0f}", "train_seconds": "{:.1f}", "samples_per_second": "{:,.0f}",
}  # fmt: skip


def list_results(
    dataset: str,
    *,
    run: str | None = None,
    table: str | None = None,
    against: str | None = None,
    env: str | None = None,
) -> Iterator[str]:
    """Describe the recorded runs of a dataset, one line per table, or show the table of a run.

    Args:
        dataset: key of the dataset.
        run: id of a run, or its beginning; its table is shown.
        table: table of the run, such as ``din`` or ``din_table4``; the first one if left out.
        against: id of another run; the models whose GAUC differs between the two runs are shown.
        env: configuration environment.

    Raises:
        InputError: unknown dataset, run or table, or no run is recorded.
    """
    history = _history(dataset, env)
    if run is None:
        yield from _lines(list_runs(history), {"gauc": "{:.4f}"})
        return
    results = find_run(history, run, table)
    if against is None:
        yield from _lines(results[[name for name in _COLUMNS if name in results]], _COLUMNS)
        return
    changes = gauc_changes(find_run(history, against, table), results)
    if changes.empty:
        yield f"no model's GAUC differs between {against} and {run}"
        return
    formats = {"before": "{:.4f}", "after": "{:.4f}", "change": "{:+.4f}"}
    yield from _lines(changes[["name", *formats]], formats)


def _history(dataset: str, env: str | None) -> pd.DataFrame:
    with open_project(env) as context:
        require_dataset(context, dataset)
        entry = f"{dataset}.results_history"
        if not context.catalog.exists(entry):
            option = f" --env={env}" if env else ""
            raise InputError(
                f"{dataset}: no run is recorded; every finished run is: kedro run --pipelines={dataset}{option}"
            )
        try:
            return context.catalog.load(entry)
        except DatasetError as error:
            raise InputError(str(error.__cause__ or error)) from error


def _lines(table: pd.DataFrame, formats: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a table with its values formatted; missing ones are empty."""
    shown = table.astype(object)
    for name in shown:
        shown[name] = [
            "" if pd.isna(value) else formats.get(name, "{}").format(value) for value in shown[name]
        ]
    yield from shown.to_string(index=False).splitlines()
