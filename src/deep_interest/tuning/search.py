"""Searching: trials of one row's options until enough are finished, by one process or several, whatever stopped it before."""

import hashlib
import json
import logging
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import optuna
from filelock import FileLock, Timeout
from optuna.trial import Trial, TrialState

from deep_interest.errors import InputError
from deep_interest.training.loop import DivergedError
from deep_interest.training.parallel import map_seeds
from deep_interest.training.runs import Data, fit_seed
from deep_interest.tuning.parameters import SearchRange
from deep_interest.tuning.study import (
    DIVERGED,
    EPOCHS,
    FINISHED,
    RETRIED,
    SECONDS,
    Search,
    best_so_far,
    open_study,
)

logger = logging.getLogger(__name__)


def tune(search: Search, data: Data) -> optuna.Study:
    """Try options until ``n_trials`` trials are finished, those of earlier runs included.

    Trials that a killed run left behind are tried again with the same options. With one worker a search that was
    stopped and started again draws the same options as one that was not; with several, what is drawn depends on which
    trials are finished by then.

    Args:
        search: what to search.
        data: training and validation samples; test samples are refused.

    Raises:
        InputError: test samples among the data, no validation samples, another run of the same study at work, an
            option that the run sets by itself, or a study of other data or settings.
    """
    _check(search, data)
    search.folder.mkdir(parents=True, exist_ok=True)
    running = FileLock(search.folder / "study.lock")
    try:
        with running.acquire(timeout=0):
            study = open_study(search)
            _check_same(study, search, data)
            _retry_unfinished(study, set(search.ranges))
            _tell_if_done(study, search)
            workers = range(search.tuning.workers)
            map_seeds(_work, (search, data, study.user_attrs["data"]), workers, processes=len(workers))
            shutil.rmtree(search.folder / "fits", ignore_errors=True)
            return study
    except Timeout:
        raise InputError(
            f"{search.folder}: another run is searching for {search.experiment.name}; wait for it, or raise tuning.workers there"
        ) from None


def _check(search: Search, data: Data) -> None:
    present = set(data.samples["split"].unique())
    if "test" in present:
        raise InputError(
            "tuning: found test samples among the data; hand over training and validation samples only"
        )
    if "validation" not in present:
        raise InputError(
            f"tuning {search.experiment.name}: the dataset has no validation samples, so nothing can be chosen; use another protocol "
            "mode than `paper`"
        )
    if fixed := [
        name for name in search.ranges if name.removeprefix("training.") in search.experiment.run.options
    ]:
        raise InputError(
            f"training.options: {', '.join(fixed)} is set by the run and searched by tuning.rows; leave it out of one of them"
        )


def _check_same(study: optuna.Study, search: Search, data: Data) -> None:
    """A study goes on only with the data and the settings that it began with."""
    experiment = search.experiment
    found = {
        "data": data.fingerprint(),
        "recipe": experiment.recipe.model_dump_json(exclude={"rows"})
        + json.dumps(experiment.recipe.model_dump()["rows"].get(experiment.model)),
        "options": json.dumps(experiment.options.root, sort_keys=True),
        "training.options": json.dumps(experiment.run.options, sort_keys=True),
        "ranges": json.dumps({name: found.model_dump() for name, found in search.ranges.items()}),
        "seeds": json.dumps([search.tuning.seed, search.tuning.fit_seed]),
    }
    known = study.user_attrs
    changed = [name for name, value in found.items() if name in known and known[name] != value]
    if changed:
        raise InputError(
            f"{search.folder / 'study.db'}: the study was begun with other {', '.join(changed)}; its trials cannot be compared "
            "with new ones. Set these back, or remove the file to begin anew"
        )
    for name, value in found.items():
        study.set_user_attr(name, value)


def _retry_unfinished(study: optuna.Study, searched: set[str]) -> None:
    """Queue the trials that a killed run left behind; nobody else runs while the study's lock is ours."""
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
        if set(trial.params) == searched:  # else nothing was begun, and the next draw is the same
            first = trial.user_attrs.get(RETRIED, trial.number)
            study.enqueue_trial(trial.params, user_attrs={RETRIED: first})
            logger.info("trial %d was interrupted and is tried again", trial.number)


def _tell_if_done(study: optuna.Study, search: Search) -> None:
    done = sum(trial.state in FINISHED for trial in study.get_trials(deepcopy=False))
    if done >= search.tuning.n_trials:
        logger.info(
            "%s: %d trials are finished and tuning.n_trials is %d, so nothing is tried", search.experiment.name, done, search.tuning.n_trials,
        )  # fmt: skip


def _work(search: Search, data: Data, fingerprint: str, worker: int) -> None:
    """One worker: a trial after the other, as long as there are trials to finish.

    Args:
        search: what to search.
        data: the samples; another process gets mapped files by their names, and other runs may replace these in the meantime.
        fingerprint: of the data that the search began with.
        worker: index of the worker.

    Raises:
        InputError: the data are not those that the search began with.
    """
    if data.fingerprint() != fingerprint:
        raise InputError(
            f"{search.experiment.name}: another run replaced the samples while the search was starting its workers; run the same "
            "command again"
        )
    study = open_study(search)
    while (begun := _next_trial(study, search)) is not None:
        trial, values = begun
        try:
            value = _fit(search, data, values, _Reporter(trial))
        except optuna.TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
        except DivergedError:
            trial.set_user_attr(DIVERGED, True)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, value)
        _log(study, search, trial.number)


def _next_trial(study: optuna.Study, search: Search) -> tuple[Trial, dict[str, Any]] | None:
    """Begin a trial and draw its options; None when enough are finished or running.

    The search's random state follows from its seed and the number of trials begun before, so it does not depend on
    how often the search was stopped.
    """
    with FileLock(search.folder / "trials.lock"):
        states = [trial.state for trial in study.get_trials(deepcopy=False)]
        begun = sum(state in (*FINISHED, TrialState.RUNNING) for state in states)
        if begun >= search.tuning.n_trials:
            return None
        seed = int(np.random.SeedSequence([search.tuning.seed, begun]).generate_state(1)[0])
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=search.tuning.random_trials)
        trial = study.ask()
        return trial, {name: _draw(trial, name, found) for name, found in search.ranges.items()}


def _draw(trial: Trial, name: str, found: SearchRange) -> bool | int | float | str:
    if found.choices is not None:
        return trial.suggest_categorical(name, found.choices)
    if found.integer:
        return trial.suggest_int(name, int(found.low), int(found.high), log=found.log)
    return trial.suggest_float(name, found.low, found.high, log=found.log)


class _Reporter:
    """Tells a trial its GAUC after each evaluation, and ends it where it is below the median."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.reported = trial, 0

    def __call__(self, history: list[dict[str, float]]) -> None:
        self.note(history)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def note(self, history: list[dict[str, float]]) -> None:
        for step in range(self.reported, len(history)):
            self.trial.report(history[step]["validation_gauc"], step)
        self.reported = len(history)
        self.trial.set_user_attr(EPOCHS, len(history))
        self.trial.set_user_attr(SECONDS, round(history[-1]["seconds"], 2))


def _fit(search: Search, data: Data, values: dict[str, Any], reporter: _Reporter) -> float:
    """The best validation GAUC of a fit with these options."""
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
    reporter.note(history)
    shutil.rmtree(folder, ignore_errors=True)
    return max(row["validation_gauc"] for row in history)


def _log(study: optuna.Study, search: Search, number: int) -> None:
    trials = study.get_trials(deepcopy=False)
    trial = trials[number]
    logger.info(
        "%s trial %d %s, GAUC %.4f, %s (%d of %d finished)", search.experiment.name, number, trial.state.name.lower(), best_so_far(trial),
        ", ".join(f"{name} {_short(value)}" for name, value in trial.params.items()),
        sum(other.state in FINISHED for other in trials), search.tuning.n_trials,
    )  # fmt: skip


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
