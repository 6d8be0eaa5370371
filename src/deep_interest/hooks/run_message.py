"""The message at the end of a run: its results in short, where they are, and the commands that come next."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

from deep_interest.abtest.metrics import METRICS
from deep_interest.evaluation.history import (
    RunRecord,
    append_results,
    gauc_changes,
    has_models,
    previous_results,
)
from deep_interest.experiments import (
    ABLATIONS,
    ALL_MODELS,
    LEADERBOARD,
    MODELS,
    RETRAINABLE,
    TUNABLE,
    WORTH,
    pipeline_name,
    without_variant,
)
from deep_interest.offpolicy.evaluation import ESTIMATORS
from deep_interest.reporting.run_record import describe_run
from deep_interest.reporting.worth_section import model_name, worth_sentences

HISTORY = "results_history"
_BEST, _CHANGES = 5, 5  # rows in the message


class RunMessage:
    """The message at the end of a run.

    Args:
        run_params: Kedro's description of the run.
        pipeline: pipeline of the run.
        catalog: its catalog.
    """

    def __init__(self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        self._run, self._catalog = run_params, catalog
        self._outputs = pipeline.all_outputs()
        self._env = f" --env={run_params['env']}" if run_params.get("env") else ""

    def lines(self) -> Iterator[str]:
        """Append new results to the history and yield the lines of the message; none if the run has no results to look at."""
        makers = {
            "results": self._results, "tuned": self._tuned, "scores": self._scores, "run_summary": self._retrained,
            "days": self._days, "parity": self._parity, "readout": self._abtest,
            "estimates": self._evaluation,
        }  # fmt: skip
        found = False
        for entry in sorted(self._outputs, key=lambda name: (name.count("."), name)):
            experiment, _, kind = entry.rpartition(".")
            if kind in makers and (kind, experiment.partition(".")[2]) != ("tuned", LEADERBOARD):
                found = True
                yield from makers[kind](experiment)
        if not found:
            for entry in sorted(name for name in self._outputs if name.endswith(".samples_summary")):
                yield from self._samples(entry.rpartition(".")[0])

    def _results(self, namespace: str) -> Iterator[str]:
        dataset, _, table = namespace.partition(".")
        results = self._catalog.load(f"{namespace}.results")
        if table == WORTH:
            yield from self._worth(namespace, results)
            return
        if not has_models(results):  # of a backtest
            yield from self._files(
                {"table": f"{namespace}.results_page", "plot": f"{namespace}.results_figure"}
            )
            return
        described = describe_run(Path(self._run["project_path"]))
        record = RunRecord(
            run=self._run["run_id"], time=described["time"], environment=self._run.get("env") or "local",
            commit=(described["commit"] or "")[:12] + ("+" if described["changed"] else ""), table=table or ALL_MODELS.title,
        )  # fmt: skip
        history = self._history(dataset)
        updated = append_results(history, results, record)
        if updated is not history:
            self._catalog.save(f"{dataset}.{HISTORY}", updated)
        models = results[results["model"] != "oracle"].sort_values("gauc", ascending=False, kind="stable")
        name = namespace if len(models) == 1 else f"{dataset}: {table or ALL_MODELS.title}"
        title = f"{name}, run {record.run}"
        yield title
        base = ABLATIONS[table].base if table in ABLATIONS else without_variant(table)
        names = results.set_index("model")["name"]
        yield from _table(models.head(_BEST), str(names.get(base, MODELS["base"].name)))
        if len(models) > _BEST:
            more = len(models) - _BEST
            yield f"  … and {more} more model{'s' if more > 1 else ''}"
        previous = previous_results(history, record)
        if previous is not None:
            yield from self._changes(*previous, results)
        yield ""
        yield from self._files(
            {"report": f"{dataset}.report"} if not table else {},
            {"table": f"{namespace}.results_page", "as CSV": f"{namespace}.results"}
            if f"{namespace}.results_page" in self._outputs
            else {"table": f"{namespace}.results"},
            {"trials": f"{namespace}.trials", "recipe": f"{namespace}.recipe"}
            if table == LEADERBOARD
            else {},
        )
        commands = self._after_table(dataset, table, [str(model) for model in models["model"]])
        if previous is not None:
            commands.append(f"deep-interest results {dataset}{self._env}    # earlier runs")
        yield from self._next(commands)

    def _worth(self, namespace: str, results: pd.DataFrame) -> Iterator[str]:
        dataset = namespace.partition(".")[0]
        yield f"{dataset}: worth of data for {model_name(results)}"
        yield from (f"  {sentence}" for sentence in worth_sentences(results))
        yield ""
        yield from self._files(
            {"table": f"{namespace}.results_page", "as CSV": f"{namespace}.results", "plot": f"{namespace}.curves_figure"}
        )  # fmt: skip
        yield from self._next(
            [
                f"kedro run --pipelines=report.{dataset}{self._env}    # a section of the report, once the models are trained"
            ]
        )

    def _history(self, dataset: str) -> pd.DataFrame | None:
        entry = f"{dataset}.{HISTORY}"
        return self._catalog.load(entry) if self._catalog.exists(entry) else None

    @staticmethod
    def _changes(run: str, before: pd.DataFrame, results: pd.DataFrame) -> Iterator[str]:
        changes = gauc_changes(before, results)
        if changes.empty:
            yield f"  GAUC as in run {run}"
            return
        listed = [
            f"{row.name} {row.before:.4f} → {row.after:.4f} ({row.change:+.4f})"
            for row in changes.head(_CHANGES).itertuples(index=False)
        ]
        more = f", and {len(changes) - _CHANGES} more" if len(changes) > _CHANGES else ""
        yield f"  GAUC since run {run}: {', '.join(listed)}{more}"

    def _after_table(self, dataset: str, table: str, ranking: list[str]) -> list[str]:
        """Return the next commands; they are about the best model that can be explained and tuned."""
        commands = []
        if table == LEADERBOARD:
            return [
                f"kedro run --pipelines={dataset} --params=training.tuned={LEADERBOARD}{self._env}    # all models with their best options"
            ]
        if table in MODELS:  # a model on its own
            commands.append(f"kedro run --pipelines={dataset}{self._env}    # all models of the table")
        best = next((model for model in ranking if not MODELS[without_variant(model)].closed_form), None)
        if best is None:
            return commands
        if ids := self._test_sample(dataset, best):
            user, item = (shlex.quote(str(value)) for value in ids)
            commands.append(
                f"deep-interest explain {dataset}.{best} --user {user} --candidate {item}{self._env}"
            )
        if best in TUNABLE and table not in ABLATIONS:
            commands.append(f"kedro run --pipelines=tune.{dataset}.{best}{self._env}")
        return commands

    def _test_sample(self, dataset: str, model: str) -> tuple[Any, Any] | None:
        """Return the ids of user and item of a test sample."""
        first = self._catalog.load(f"{dataset}.{model}.predictions").iloc[0]
        ids = []
        for kind in ("user", "item"):
            code = int(first[kind])
            if not code:
                return None
            ids.append(self._catalog.load(f"{dataset}.{kind}_ids")["id"].iloc[code - 1])
        return ids[0], ids[1]

    def _tuned(self, experiment: str) -> Iterator[str]:
        tuned = self._catalog.load(f"{experiment}.tuned")
        dataset, _, model = experiment.partition(".")
        values = ", ".join(f"{name} {_short(value)}" for name, value in tuned["values"].items())
        yield f"{experiment}: best of {tuned['finished']} trials, validation GAUC {tuned['validation_gauc']:.4f} with {values}"
        yield ""
        yield from self._files(
            {
                "values": f"{experiment}.tuned",
                "trials": f"{experiment}.trials",
                "plot": f"{experiment}.tuning_figure",
            }
        )
        tuned_pipeline = pipeline_name(dataset, f"{model}_tuned")
        yield from self._next(
            [f"kedro run --pipelines={tuned_pipeline}{self._env}    # compares it with the untuned model"]
        )

    def _scores(self, experiment: str) -> Iterator[str]:
        path = self._path(f"{experiment}.scores")
        yield f"{experiment}: the champion has scored every candidate for every user"
        yield ""
        yield from self._files({"scores": f"{experiment}.scores"})
        yield from self._next([f"python -c \"import pandas; print(pandas.read_parquet('{path}'))\""])

    def _parity(self, experiment: str) -> Iterator[str]:
        parity = self._catalog.load(f"{experiment}.parity")
        yield f"{experiment}: {parity['requests']:,} requests with {parity['candidates']:,} candidates scored again"
        yield f"  largest difference: {parity['largest_difference']:.2g} (tolerance {parity['tolerance']:g})"
        yield ""
        yield from self._files({"parity": f"{experiment}.parity"})

    def _abtest(self, test: str) -> Iterator[str]:
        results, checks = (self._catalog.load(f"{test}.{name}") for name in ("readout", "checks"))
        users = ", ".join(f"{arm} {count:,}" for arm, count in checks["users"].items())
        yield f"{test.partition('.')[2]}: {checks['days']} days, users {users}"
        if not checks["is_as_planned"]:
            yield "  sample ratio mismatch: do not use the result"
        for row in results.to_dict("records"):
            interval = "" if pd.isna(row["low"]) else f" [{row['low']:+.1%}, {row['high']:+.1%}]"
            yield f"  {METRICS[row['metric']].name:17} {row['arm']} {row['lift']:+.1%}{interval}"
        yield ""
        files = {"report": f"{test}.report", "table": f"{test}.readout_page", "as CSV": f"{test}.readout"}
        truth = f"{test}.simulation_page"
        yield from self._files(files | ({"truth": truth} if self._catalog.exists(truth) else {}))

    def _evaluation(self, name: str) -> Iterator[str]:
        results, checks = (self._catalog.load(f"{name}.{entry}") for entry in ("estimates", "checks"))
        yield f"{name.partition('.')[2]}: {checks['rows']:,} impressions, mean weight {checks['mean_weight']:.3f}"
        if checks["refusals"]:
            yield "  estimates refused: see the page"
        for row in results.to_dict("records"):
            yield f"  {ESTIMATORS[row['estimator']]:13} {row['value']:.4g} [{row['low']:.4g}, {row['high']:.4g}]"
        yield ""
        yield from self._files(
            {"report": f"{name}.report", "table": f"{name}.estimates_page", "as CSV": f"{name}.estimates"}
        )

    def _retrained(self, experiment: str) -> Iterator[str]:
        summary = self._catalog.load(f"{experiment}.run_summary")
        version, outcome = summary.get("version", "no version"), summary["outcome"]
        serves = outcome == "promoted" or summary.get("champion_before")
        yield f"{experiment}: {version} {outcome.replace('_', ' ')}"
        for check in summary.get("checks", []):
            if not check["passed"]:
                yield f"  {check['name']}: {_short(check['found'])}, expected {check['expected']}"
        yield ""
        yield from self._files({"summary": f"{experiment}.run_page"})
        commands = [f"deep-interest registry list {experiment}{self._env}"]
        if serves and experiment.partition(".")[2] in RETRAINABLE:
            commands.insert(0, f"kedro run --pipelines=score.{experiment}{self._env}")
        if outcome == "refused":
            commands.append(
                f"deep-interest registry promote {experiment} {version}{self._env}    # regardless of the checks"
            )
        yield from self._next(commands)

    def _days(self, dataset: str) -> Iterator[str]:
        yield f"{dataset}: one folder per day, as input of retraining"
        yield ""
        yield from self._files({"days": f"{dataset}.days"})
        yield from self._next([f"kedro run --pipelines=retrain.{dataset}.din{self._env}"])

    def _samples(self, dataset: str) -> Iterator[str]:
        yield f"{dataset}: samples are ready"
        yield ""
        yield from self._files({"counts": f"{dataset}.samples_summary"})
        yield from self._next(
            [f"kedro run --pipelines={name}{self._env}" for name in (f"{dataset}.din", dataset)]
        )

    def _files(self, *entries: dict[str, str]) -> Iterator[str]:
        """Yield one line per entry that the run has written."""
        for name, entry in (pair for group in entries for pair in group.items()):
            if entry in self._outputs and (path := self._path(entry)):
                yield f"  {name + ':':9} {path}"

    def _path(self, entry: str) -> str | None:
        """Return the path of a catalog entry, relative to the project if it is in it; None if it has none."""
        catalog: Any = self._catalog  # the protocol lacks the resolver that every catalog has
        config = catalog.config_resolver.resolve_pattern(entry)
        path = config.get("filepath") or config.get("path")
        if not path:
            return None
        if "figure" in entry:  # next to the chart for Plotly
            path = path.removesuffix(".json") + ".png"
        project = Path(self._run["project_path"])
        return str(Path(path).relative_to(project)) if Path(path).is_relative_to(project) else str(path)

    @staticmethod
    def _next(commands: list[str]) -> Iterator[str]:
        for name, command in zip(["next:", *[""] * len(commands)], commands, strict=False):
            yield f"  {name:9} {command}"


def _table(models: pd.DataFrame, base_name: str) -> Iterator[str]:
    """Yield a line per model: name, GAUC, and the difference to a base model with its interval, if the table has it."""
    width = max(map(len, models["name"]))
    for row in models.to_dict("records"):
        line = f"  {row['name']:{width}}  GAUC {row['gauc']:.4f}"
        if pd.notna(row.get("difference")):
            line += f"  {row['difference']:+.4f} to {base_name}"
            if pd.notna(row.get("difference_low")):
                line += f" [{row['difference_low']:+.4f}, {row['difference_high']:+.4f}]"
        yield line


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "undefined" if value is None else str(value)
