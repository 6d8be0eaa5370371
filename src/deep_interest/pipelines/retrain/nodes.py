"""Check new days, fit a challenger, compare it with the champion, register it and promote it if it is better."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deep_interest.errors import InputError
from deep_interest.logs.vocabulary import FieldVocabularies
from deep_interest.pipelines.factories import node_factory
from deep_interest.pipelines.parameters import DatasetParameters
from deep_interest.pipelines.train.nodes import takes_options_of
from deep_interest.retraining.checks import changed_days, check_days
from deep_interest.retraining.days import ReaderConfig, list_days, read_days
from deep_interest.retraining.parameters import RetrainingParameters
from deep_interest.retraining.plan import Plan, new_days, plan_run
from deep_interest.retraining.rows import Before, Rows, assign_rows, check_days_exist, check_rules
from deep_interest.retraining.summary import run_summary, summary_page
from deep_interest.serving.registry import Registry
from deep_interest.training.parameters import Recipes, RowOptions, RunParameters

logger = logging.getLogger(__name__)


def plan(
    days: Path, registry: Registry, settings: DatasetParameters, retraining: RetrainingParameters
) -> Plan:
    """Check every new day and select the days to train on and the held-out day.

    Days of earlier runs whose files have changed are checked like new days, with a warning.
    """
    state, champion, all_days = registry.state(), registry.champion(), list_days(days)
    check_rules(retraining.rows, settings.features, history_days=retraining.history_days)
    check = partial(
        check_days, days, reading=reading_of(settings), bounds=retraining.days,
        vocabularies=champion.vocabularies() if champion else None,
    )  # fmt: skip
    records = check(new_days(all_days, state), state.days)
    has_click_times = settings.source is not None and settings.source.has_click_times
    incomplete = retraining.delayed_clicks.complete_hours // 24 if has_click_times else 0
    run_plan = plan_run(all_days, state, champion, retraining, records, incomplete_days=incomplete)
    check_days_exist(retraining.rows, all_days, state.days, run_plan.held_out)
    changed = changed_days(days, run_plan.history, state.days)
    if not changed:
        return run_plan
    logger.log(
        logging.INFO if has_click_times else logging.WARNING,  # clicks that have arrived since change the files
        "%s: the files of %s have changed since an earlier run used them; this run uses the current files, "
        "existing versions were trained on the earlier ones",
        days, ", ".join(changed),
    )  # fmt: skip
    return run_plan.with_changed(check(changed, state.days | records))


@node_factory
def make_wait(dataset: str, model: str) -> Callable[..., Any]:
    """Return the node function that decides how long to wait for clicks."""

    @takes_options_of(model)
    def wait(
        days: Path, plan: Plan, options: RowOptions, settings: DatasetParameters, recipes: Recipes, run: RunParameters,
        retraining: RetrainingParameters,
    ) -> Any:  # fmt: skip
        """Return the wait: the parameter, or the chosen one."""
        from deep_interest.retraining.wait_choice import ChosenWait, choose_wait

        hours = retraining.delayed_clicks.wait_hours
        if hours != "choose":
            return ChosenWait(hours)
        from deep_interest.retraining.delay_backtest import NightlyFits
        from deep_interest.retraining.delayed_clicks import night_after, require_click_times
        from deep_interest.retraining.runs import retraining_experiment

        reading = reading_of(settings)
        tables = read_days(days, plan.history, reading)
        require_click_times(tables)
        experiment = retraining_experiment(
            dataset, model, RowOptions(options.root), settings, recipes, run, retraining
        )
        fits = NightlyFits(
            experiment, retraining, settings.protocol, settings.features, reading.source.time_zone,
            Path(run.workspace) / dataset / model / "waits",
        )  # fmt: skip
        night = night_after(tables, plan.newest, reading.source.time_zone)
        return choose_wait(tables, [day for day in plan.history if day < plan.held_out], fits, night=night)

    return wait


def prepare(
    days: Path,
    plan: Plan,
    wait: Any,
    registry: Registry,
    settings: DatasetParameters,
    retraining: RetrainingParameters,
) -> tuple[Any, FieldVocabularies, Rows]:
    """Return the log, features and samples of the window, the extended vocabularies, and which of their ids have a row."""
    from deep_interest.retraining.wait_choice import labels_of_run
    from deep_interest.retraining.window import encode_window

    champion = registry.load(plan.parent) if plan.parent else None
    vocabularies = champion.vocabularies() if champion else FieldVocabularies()
    reading = reading_of(settings)
    tables = read_days(days, plan.history, reading)
    tables, facts = labels_of_run(tables, plan, wait, reading.source.time_zone, retraining.delayed_clicks)
    data = encode_window(
        tables, train=plan.train, held_out=plan.held_out, protocol=settings.protocol, features=settings.features,
        vocabularies=vocabularies,
    )  # fmt: skip
    data = replace(data, delayed_clicks=facts)
    rows = assign_rows(
        tables, settings.features, retraining.rows, vocabularies, held_out=plan.held_out,
        before=Before(champion.schema.tables, champion.manifest["days"]["held_out"]) if champion else None,
    )  # fmt: skip
    return data, vocabularies, rows


@node_factory
def make_fit(dataset: str, model: str) -> Callable[..., Any]:
    """Return the node function that fits the challenger."""

    @takes_options_of(model)
    def fit(
        data: Any, rows: Rows, plan: Plan, registry: Registry, options: RowOptions, settings: DatasetParameters,
        recipes: Recipes, run: RunParameters, retraining: RetrainingParameters,
    ) -> Any:  # fmt: skip
        """Return the challenger."""
        from deep_interest.retraining.runs import fit_by_plan, retraining_experiment

        experiment = retraining_experiment(
            dataset, model, RowOptions(options.root), settings, recipes, run, retraining
        )
        return fit_by_plan(experiment, data, plan, registry, retraining, rows)

    return fit


@node_factory
def make_judge(dataset: str, model: str) -> Callable[..., Any]:
    """Return the node function that calibrates the challenger and compares it with the champion."""

    @takes_options_of(model)
    def judge(
        fitted: Any, data: Any, rows: Rows, plan: Plan, registry: Registry, options: RowOptions, settings: DatasetParameters,
        recipes: Recipes, run: RunParameters, retraining: RetrainingParameters,
    ) -> Any:  # fmt: skip
        """Return the verdict on the held-out day, and the calibration of the challenger."""
        from deep_interest.retraining.runs import judge_by_plan, retraining_experiment

        experiment = retraining_experiment(
            dataset, model, RowOptions(options.root), settings, recipes, run, retraining
        )
        return judge_by_plan(
            experiment, fitted, data, plan, registry, retraining.gate, precision=retraining.precision, rows=rows,
            calibration=retraining.calibration, minimum_arrived=retraining.delayed_clicks.minimum_arrived,
        )  # fmt: skip

    return judge


@node_factory
def make_check_parity(dataset: str, model: str) -> Callable[..., Any]:
    """Return the node function that compares served with batch scores, where the gate asks for it."""

    def check_parity(
        verdict: Any, calibration: Any, fitted: Any, plan: Plan, vocabularies: FieldVocabularies, rows: Rows, requests: Path | None, days: Path,
        registry: Registry, settings: DatasetParameters, retraining: RetrainingParameters,
    ) -> Any:  # fmt: skip
        """Return the verdict with the checks of `parity_checks`; unchanged for a first version, which has not served yet."""
        if not retraining.gate.parity or plan.parent is None:
            return verdict
        from deep_interest.retraining.parity_gate import CurrentVersion, parity_checks
        from deep_interest.retraining.runs import artifacts_of
        from deep_interest.serving.version import read_version, write_version

        first_day = None if retraining.history_days is None else -retraining.history_days - 1
        tables = read_days(days, list_days(days)[first_day:], reading_of(settings))
        with TemporaryDirectory() as folder:
            path = Path(folder) / "challenger"
            write_version(
                path,
                artifacts_of(
                    dataset, model, plan, fitted, verdict, vocabularies, rows=rows, calibration=calibration
                ),
            )
            checks = parity_checks(
                requests,
                CurrentVersion(registry.load(plan.parent), tables, settings.features),
                CurrentVersion(read_version(path), tables, settings.features),
                requests=retraining.gate.parity_requests,
            )
        return verdict.with_checks(checks)

    return check_parity


@node_factory
def make_register(dataset: str, model: str) -> Callable[..., str]:
    """Return the node function that registers the challenger."""

    def register(
        fitted: Any, verdict: Any, calibration: Any, plan: Plan, vocabularies: FieldVocabularies, rows: Rows, registry: Registry,
        retraining: RetrainingParameters,
    ) -> str:  # fmt: skip
        """Add the challenger to the registry, whatever the verdict, and return the name of its version."""
        from deep_interest.retraining.runs import artifacts_of, version_name

        version = version_name(
            plan, fitted, retraining.gate, precision=retraining.precision, calibration=retraining.calibration,
            delayed_clicks=retraining.delayed_clicks,
        )  # fmt: skip
        registry.add(
            version,
            artifacts_of(
                dataset, model, plan, fitted, verdict, vocabularies, rows=rows, calibration=calibration
            ),
        )
        return version

    return register


@node_factory
def make_summarize(dataset: str, model: str) -> Callable[..., tuple[dict[str, Any], str]]:
    """Return the node function that summarises the run."""

    def summarize(
        plan: Plan, fitted: Any, verdict: Any, version: str, rows: Rows
    ) -> tuple[dict[str, Any], str]:
        """Return the summary of the run and its page."""
        from deep_interest.retraining.kept_rows import rows_summary

        summary = run_summary(
            dataset, model, plan, fitted, verdict, version, rows=rows_summary(fitted, model, rows)
        )
        return summary, summary_page(summary)

    return summarize


def conclude(
    summary: dict[str, Any], plan: Plan, registry: Registry, retraining: RetrainingParameters
) -> list[str]:
    """Record the new days and, if the gate passed, the new champion in one step; delete old versions.

    Raises:
        InputError: another run has changed the champion.
    """
    state = registry.state()
    if state.champion != plan.parent:
        raise InputError(
            f"{registry.folder}: the champion changed during the run, from {plan.parent} to {state.champion}; run the "
            "pipeline again"
        )
    promotions = state.promotions + ((summary["version"],) if summary["outcome"] == "promoted" else ())
    registry.commit(state.model_copy(update={"promotions": promotions, "days": state.days | plan.records}))
    return registry.prune(retraining.keep_versions)


def reading_of(settings: DatasetParameters) -> ReaderConfig:
    """Return the configuration for reading the days of a dataset.

    Raises:
        InputError: the dataset does not declare impressions, or they give their histories.
    """
    if settings.source is None or not settings.source.impressions:
        raise InputError(
            f"{settings.title}: retraining needs impressions; declare source.impressions in the dataset's block"
        )
    if settings.source.has_histories:
        raise InputError(
            f"{settings.title}: retraining and scoring need the behaviours of each user, but source.impressions.history gives the "
            "history of each row; declare source.behaviors instead"
        )
    reading = settings.reading
    return ReaderConfig(
        settings.source, settings.features, reading.on_bad_line, reading.tie_seed,
        reading.repeated_impressions == "keep",
    )  # fmt: skip
