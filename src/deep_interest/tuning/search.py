"""Hyperparameter search: trials until enough are finished, in one process or several; an interrupted search resumes."""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import optuna
from filelock import FileLock, Timeout
from optuna.distributions import CategoricalChoiceType
from optuna.trial import FrozenTrial, Trial, TrialState

from deep_interest.errors import InputError
from deep_interest.training.loop import DivergedError
from deep_interest.training.parallel import map_seeds
from deep_interest.training.runs import Data, fit_seed
from deep_interest.tuning.parameters import SearchRange
from deep_interest.tuning.storage import fail_lost_trials
from deep_interest.tuning.study import (
    DIVERGED,
    EVALUATIONS,
    FINISHED,
    PROCESSOR_SECONDS,
    SEARCHED,
    SECONDS,
    Search,
    best_so_far,
    finished_trials,
    open_study,
    repeat,
)

logger = logging.getLogger(__name__)
POLL_SECONDS = 2.0  # of a machine that waits for the last trials of the others


def tune(search: Search, data: Data) -> optuna.Study:
    """Run trials until ``n_trials`` are finished, including those of earlier runs.

    Trials that a killed run left unfinished are repeated with the same options. With one worker, an interrupted search draws
    the same options as an uninterrupted one; with several, the draws depend on the order in which trials finish. Machines
    that share a study count their trials together, and each returns when all of them are finished.

    Args:
        search: what to search.
        data: training and validation samples.

    Raises:
        InputError: there are test samples or no validation samples, another run uses the same study, an option is both searched
            and set by the run, or the study was started with other data or settings.
    """
    _check(search, data)
    search.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(search.folder / "study.lock")
    try:
        with lock.acquire(timeout=0), _naming(search):
            with search.exclusive():
                study = open_study(search)
                _require_same_settings(study, search, data)
            _requeue_unfinished(study, search)
            _log_if_finished(study, search)
            workers = range(search.tuning.workers)
            map_seeds(_work, (search, data, study.user_attrs["data"]), workers, processes=len(workers))
            shutil.rmtree(search.folder / "fits", ignore_errors=True)
            return study
    except Timeout:
        raise InputError(
            f"{search.folder}: another run is tuning {search.experiment.name}; wait for it, or set tuning.workers to more than "
            "1 there"
        ) from None


@contextmanager
def _naming(search: Search) -> Iterator[None]:
    """Add the name of the study's file to errors of the database, which do not know it."""
    try:
        yield
    except Exception as error:
        if search.tuning.storage is None:
            error.add_note(f"filepath={search.folder / 'study.db'}")
        raise


def _check(search: Search, data: Data) -> None:
    splits = set(data.samples["split"].unique())
    if "test" in splits:
        raise InputError("tuning: the data contain test samples; pass training and validation samples only")
    if "validation" not in splits:
        raise InputError(
            f"tuning {search.experiment.name}: the dataset has no validation samples to select options by; use another protocol "
            "mode than `paper`"
        )
    run_options = search.experiment.run.options
    if fixed := [name for name in search.ranges if name.removeprefix("training.") in run_options]:
        raise InputError(
            f"training.options: {', '.join(fixed)} is set by the run, but tuning.models searches it; remove it from one of them"
        )


def _require_same_settings(study: optuna.Study, search: Search, data: Data) -> None:
    """Check that a study resumes with the data and settings it was started with; record those of a new study."""
    experiment = search.experiment
    settings = {
        "data": data.fingerprint(),
        "recipe": experiment.recipe.model_dump_json(exclude={"models", "searched"})
        + json.dumps(experiment.recipe.model_dump()["models"].get(experiment.model)),
        "options": json.dumps(experiment.options.root, sort_keys=True),
        "training.options": json.dumps(experiment.run.options, sort_keys=True),
        "ranges": json.dumps({name: searched.model_dump() for name, searched in search.ranges.items()}),
        "seeds": json.dumps([search.tuning.seed, search.tuning.fit_seed]),
        SEARCHED: list(search.ranges),
    }
    recorded = study.user_attrs
    changed = [name for name, value in settings.items() if name in recorded and recorded[name] != value]
    if changed:
        where, remove = str(search.folder / "study.db"), "remove the file"
        if search.tuning.storage is not None:
            where, remove = f"{search.tuning.storage}, {search.experiment.name}", "use another database"
        raise InputError(
            f"{where}: the study was started with other {', '.join(changed)}, so its trials cannot be compared with new ones. "
            f"Restore these settings, or {remove} to start again"
        )
    for name, value in settings.items():
        study.set_user_attr(name, value)


def _requeue_unfinished(study: optuna.Study, search: Search) -> None:
    """Queue the trials that a killed run left unfinished; of a study that machines share, those that have been lost."""
    if search.tuning.storage is not None:
        fail_lost_trials(study)
        return
    for trial in study.get_trials(states=(TrialState.RUNNING,)):  # the lock of the folder excludes other runs
        study.tell(trial.number, state=TrialState.FAIL)
        repeat(study, trial)


def _log_if_finished(study: optuna.Study, search: Search) -> None:
    finished = _count_finished(study)
    if finished >= search.tuning.n_trials:
        logger.info(
            "%s: %d trials are finished already and tuning.n_trials is %d; no new trial is started", search.experiment.name,
            finished, search.tuning.n_trials,
        )  # fmt: skip


def _count_finished(study: optuna.Study) -> int:
    return len(finished_trials(study))


def is_finished(study: optuna.Study, search: Search) -> bool:
    """Return whether a study needs no further trial: all are finished, or they have used up their processor time."""
    return _count_finished(study) >= search.tuning.n_trials or _has_used_its_time(study, search)


def _has_used_its_time(study: optuna.Study, search: Search) -> bool:
    limit = search.tuning.processor_minutes
    return limit is not None and processor_seconds(study) >= 60 * limit


def processor_seconds(study: optuna.Study, limit: int | None = None) -> float:
    """Return the processor time of the finished trials, or of the first ``limit`` of them, in seconds."""
    return sum(trial.user_attrs.get(PROCESSOR_SECONDS, 0.0) for trial in finished_trials(study, limit))


def _work(search: Search, data: Data, fingerprint: str, worker: int) -> None:
    """Run trials in one worker as long as some are left.

    Args:
        search: what to search.
        data: the samples; a worker process opens their mapped files by name, and another run may have replaced these files.
        fingerprint: fingerprint of the data that the search was started with.
        worker: index of the worker.

    Raises:
        InputError: the data are not those that the search was started with.
    """
    if data.fingerprint() != fingerprint:
        raise InputError(
            f"{search.experiment.name}: another run replaced the samples while the search was starting its workers; run the same "
            "command again"
        )
    study = open_study(search)
    while True:
        with ExitStack() as turn:
            turn.enter_context(search.exclusive())
            started = _count_started(study)
            if started < search.tuning.n_trials and not _has_used_its_time(study, search):
                _run_trial(study, search, data, started, release=turn.close)
                continue
        if search.tuning.storage is None or not study.get_trials(
            deepcopy=False, states=(TrialState.RUNNING,)
        ):
            return
        time.sleep(POLL_SECONDS)  # another machine may be lost, and its trial be repeated here
        fail_lost_trials(study)


def _count_started(study: optuna.Study) -> int:
    return sum(trial.state in (*FINISHED, TrialState.RUNNING) for trial in study.get_trials(deepcopy=False))


def _run_trial(
    study: optuna.Study, search: Search, data: Data, started: int, *, release: Callable[[], None]
) -> None:
    """Start a trial, draw its options, release the lock of the study, and train.

    The random state follows from the search's seed and the number of trials started before, so the draws do not depend on
    interruptions.
    """
    seed = int(np.random.SeedSequence([search.tuning.seed, started]).generate_state(1)[0])
    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=search.tuning.random_trials)

    begun: list[int] = []

    def objective(trial: Trial) -> float:
        begun.append(trial.number)
        values = {name: _draw(trial, name, searched) for name, searched in search.ranges.items()}
        release()
        processor_start = time.process_time()
        try:
            return _fit(search, data, values, _Reporter(trial))
        except DivergedError:
            trial.set_user_attr(DIVERGED, True)
            raise optuna.TrialPruned from None
        finally:
            trial.set_user_attr(PROCESSOR_SECONDS, round(time.process_time() - processor_start, 2))

    def after_trial(study: optuna.Study, trial: FrozenTrial) -> None:
        logger.info(
            "%s · %s · %d of %d trials finished", search.experiment.name, _describe(trial), _count_finished(study),
            search.tuning.n_trials,
        )  # fmt: skip

    try:
        study.optimize(objective, n_trials=1, callbacks=[after_trial])
    except BaseException:  # Ctrl-C as well
        for number in begun:
            repeat(study, study.get_trials(deepcopy=False)[number])
        raise


def _draw(trial: Trial, name: str, searched: SearchRange) -> CategoricalChoiceType | tuple[int, ...]:
    if searched.choices is not None:
        return searched.value_of(trial.suggest_categorical(name, searched.drawn_choices))
    low, high = searched.bounds
    if searched.integer:
        return trial.suggest_int(name, int(low), int(high), log=searched.log)
    return trial.suggest_float(name, low, high, log=searched.log)


class _Reporter:
    """Reports the validation GAUC of each evaluation to a trial, and stops the trial if the pruner says so."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.reported = trial, 0

    def __call__(self, history: list[dict[str, float]]) -> None:
        self.report(history)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def report(self, history: list[dict[str, float]]) -> None:
        """Report the evaluations that are new since the last call."""
        for step in range(self.reported, len(history)):
            self.trial.report(history[step]["validation_gauc"], step)
        self.reported = len(history)
        self.trial.set_user_attr(EVALUATIONS, len(history))
        self.trial.set_user_attr(SECONDS, round(history[-1]["seconds"], 2))


def _fit(search: Search, data: Data, values: dict[str, Any], reporter: _Reporter) -> float:
    """Train with the given options and return the best validation GAUC."""
    experiment = search.experiment
    name = hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=8).hexdigest()
    folder = search.folder / "fits" / name
    run = experiment.run.model_copy(
        update={
            "workspace": str(folder),
            "options": {**experiment.run.options, "selection": "gauc", "watch_test": False},
        }
    )
    tried = replace(experiment, recipe=experiment.recipe.with_values(experiment.model, values), run=run)
    try:
        history = fit_seed(tried, data, search.tuning.fit_seed, after_evaluation=reporter).history
    except (optuna.TrialPruned, DivergedError):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    reporter.report(history)
    shutil.rmtree(folder, ignore_errors=True)
    return max(row["validation_gauc"] for row in history)


def _describe(trial: FrozenTrial) -> str:
    """Return a trial as a part of a log line, e.g. "trial 3 pruned · val GAUC 0.680 · training.mba 0.05 · 12 s of training"."""
    outcome = "diverged" if trial.user_attrs.get(DIVERGED) else trial.state.name.lower()
    options = ", ".join(f"{name} {_short(value)}" for name, value in trial.params.items())
    seconds = trial.user_attrs.get(SECONDS, 0.0)
    return f"trial {trial.number} {outcome} · val GAUC {best_so_far(trial):.3f} · {options} · {seconds:.0f} s of training"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
