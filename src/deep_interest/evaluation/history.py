"""History of results tables: the table of every finished run, and what has changed between two of them.

A history is one data frame per dataset: the rows of all results tables, with the columns ``run`` (the id of the run), ``time``,
``commit``, ``environment``, ``table`` and ``digest`` before those of the results.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from deep_interest.errors import InputError

RUN_COLUMNS = ("run", "time", "commit", "environment", "table", "digest")
MAX_TABLES = 100
"""Number of newest tables that a history keeps."""

_CHANGED_BY = 5e-5  # smaller differences do not show in four decimals


@dataclass(frozen=True)
class RunRecord:
    """A run whose results enter a history.

    Attributes:
        run: id of the run.
        time: when it ended, in ISO format.
        commit: abbreviated commit of the project, with ``+`` if files differ from it; empty outside of a Git repository.
        environment: configuration environment.
        table: name of the table within the dataset; ``all models`` for the dataset's own.
    """

    run: str
    time: str
    commit: str
    environment: str
    table: str


def append_results(history: pd.DataFrame | None, results: pd.DataFrame, record: RunRecord) -> pd.DataFrame:
    """Return the history with the results of a run at its end.

    Results that equal the newest ones of the same table, timings included, do not enter again: they come from a run that was
    resumed after its results had been recorded, or that found everything trained.

    Args:
        history: earlier tables; None if there are none.
        results: results table of the run, as loaded from its file.
        record: the run.
    """
    digest = _digest(results)
    own = None if history is None else history[history["table"] == record.table]
    if history is not None and own is not None and len(own) and own["digest"].iloc[-1] == digest:
        return history
    described = pd.DataFrame(
        {
            "run": record.run, "time": record.time, "commit": record.commit, "environment": record.environment,
            "table": record.table, "digest": digest,
        },
        index=results.index,
    )  # fmt: skip
    entry = pd.concat([described, results], axis=1)
    if history is None:
        return entry
    joined = pd.concat([history.astype(object), entry.astype(object)], ignore_index=True)
    numbers = joined.groupby(["run", "table"], sort=False).ngroup()
    return joined[numbers > numbers.max() - MAX_TABLES].reset_index(drop=True)


def list_runs(history: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run and table, newest first.

    Returns:
        The columns ``run``, ``table``, ``models``, ``best`` (name of the model with the highest GAUC), ``gauc`` (its GAUC),
        ``commit`` and ``environment``.
    """
    rows = []
    for (run, table), entry in history.groupby(["run", "table"], sort=False):
        models = _models(entry)
        best = models.loc[models["gauc"].astype(float).idxmax()] if len(models) else None
        rows.append(
            {
                "run": run, "table": table, "models": len(models), "best": "" if best is None else best["name"],
                "gauc": float("nan") if best is None else float(best["gauc"]), "commit": entry["commit"].iloc[0],
                "environment": entry["environment"].iloc[0],
            }
        )  # fmt: skip
    return pd.DataFrame(rows).iloc[::-1].reset_index(drop=True)


def find_run(
    history: pd.DataFrame, run: str, table: str | None = None, option: str = "--run"
) -> tuple[str, str]:
    """Find a run and one of its tables.

    Args:
        history: history of a dataset.
        run: id of the run, or the beginning of exactly one id.
        table: name of the table; the run's first one if left out.
        option: option of the command line that names the run, for the error message.

    Returns:
        Id of the run and name of the table.

    Raises:
        InputError: there is no such run or table, or the beginning fits several runs.
    """
    ids = list(dict.fromkeys(history["run"].astype(str)))
    matches = [run] if run in ids else [known for known in ids if known.startswith(run)]
    if len(matches) != 1:
        problem = "is not a run" if not matches else f"fits {len(matches)} runs"
        raise InputError(f"{option}: {run} {problem}; the newest runs are {', '.join(reversed(ids[-3:]))}")
    tables = list(dict.fromkeys(history.loc[history["run"] == matches[0], "table"]))
    if table is not None and table not in tables:
        raise InputError(
            f"--table: run {matches[0]} has no table {table}; its tables are {', '.join(tables)}"
        )
    return matches[0], table or tables[0]


def results_of(history: pd.DataFrame, run: str, table: str) -> pd.DataFrame:
    """Return the results table of a run."""
    entry = history[(history["run"] == run) & (history["table"] == table)]
    return entry.drop(columns=list(RUN_COLUMNS)).dropna(axis=1, how="all").reset_index(drop=True)


def describe_run(history: pd.DataFrame, run: str) -> str:
    """Return environment and commit of a run."""
    first = history[history["run"] == run].iloc[0]
    commit = f", commit {first['commit']}" if pd.notna(first["commit"]) and first["commit"] else ""
    return f"environment {first['environment']}{commit}"


def run_before(history: pd.DataFrame, run: str, table: str) -> str | None:
    """Return the id of the run with the same table before a run; None if there is none."""
    ids = list(dict.fromkeys(history.loc[history["table"] == table, "run"]))
    position = ids.index(run)
    return ids[position - 1] if position else None


def previous_results(history: pd.DataFrame | None, record: RunRecord) -> tuple[str, pd.DataFrame] | None:
    """Return id and results of the newest other run with the same table; None if there is none."""
    if history is None:
        return None
    others = history[(history["table"] == record.table) & (history["run"] != record.run)]
    if others.empty:
        return None
    run = str(others["run"].iloc[-1])
    return run, others[others["run"] == run].drop(columns=list(RUN_COLUMNS)).reset_index(drop=True)


def earlier_results(
    history: pd.DataFrame, results: pd.DataFrame, table: str
) -> tuple[str, str, pd.DataFrame] | None:
    """Return the newest run with the same table whose results are not these; None if there is none.

    Args:
        history: history of the dataset, with or without these results; may be empty.
        results: results table, as loaded from its file.
        table: name of the table.

    Returns:
        Id of the run, its environment and commit, and its results.
    """
    if history.empty:
        return None
    others = history[(history["table"] == table) & (history["digest"] != _digest(results))]
    if others.empty:
        return None
    run = str(others["run"].iloc[-1])
    return run, describe_run(others, run), results_of(others, run, table)


def compare_runs(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Compare the GAUC of the models that two results tables share.

    Returns:
        The columns ``model``, ``name``, ``before``, ``after`` and ``change``, in the order of ``before``.
    """
    columns = ["model", "name", "gauc"]
    both = before[columns].merge(after[columns], on="model", suffixes=("_before", ""))
    compared = pd.DataFrame(
        {
            "model": both["model"], "name": both["name"], "before": both["gauc_before"].astype(float),
            "after": both["gauc"].astype(float),
        }
    )  # fmt: skip
    compared["change"] = compared["after"] - compared["before"]
    return compared


def gauc_changes(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the models whose GAUC differs between two results tables in its first four decimals, largest difference first.

    Returns:
        Rows of `compare_runs`; models that only one table has are left out.
    """
    changes = compare_runs(_models(before), _models(after))
    changes = changes[changes["change"].abs() >= _CHANGED_BY]
    return changes.sort_values("change", key=lambda change: -change.abs(), kind="stable").reset_index(
        drop=True
    )


def has_models(results: Mapping[str, object] | pd.DataFrame) -> bool:
    """Whether a results table compares models by GAUC, as that of a backtest does not."""
    return {"model", "name", "gauc"} <= set(results)


def _digest(results: pd.DataFrame) -> str:
    """Return a digest that begins with a letter, so that a CSV reader does not take it for a number."""
    return f"d{hashlib.blake2b(results.to_csv(index=False).encode(), digest_size=8).hexdigest()}"


def _models(results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of models, without that of the oracle."""
    return results[results["model"] != "oracle"]
