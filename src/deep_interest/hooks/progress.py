"""Log lines of a run that trains several models: which model of how many, and about how long training still takes."""

import logging
import os
import statistics
import time
from collections.abc import Sequence

from kedro.framework.hooks import hook_impl
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from deep_interest.experiments import MODELS, without_variant
from deep_interest.training import log_lines
from deep_interest.training.log_lines import format_duration

_TIMES = {"popularity": 0, "item_rate": 0, "gru": 5, "lstm": 5, "dien": 6, "bst": 10, "dmin": 20}
"""Training times of models, by the beginning of their keys, as multiples of that of the other models, roughly as in
``docs/results/simulated.csv``."""
_CHECKPOINT = ".checkpoint"


class TrainingProgress(logging.Filter):
    """Adds position and remaining time to the log lines of fits; it never drops a line.

    The position is that of the tables, whatever the order of the run. Processes of the parallel runner know only their own
    models, so their lines lack the remaining time.

    Args:
        experiments: experiments that the run trains, as ``<dataset>.<model>``.
    """

    def __init__(self, experiments: Sequence[str]) -> None:
        super().__init__()
        self._experiments = sorted(experiments, key=_table_order)
        self._process = os.getpid()
        self._one_dataset = len({name.split(".")[0] for name in experiments}) == 1
        self._started: dict[str, float] = {}
        self._finished: dict[str, float] = {}
        self._logged: set[str] = set()  # the others were found trained

    def start(self, experiment: str) -> None:
        """Record that the training of an experiment starts."""
        self._started[experiment] = time.monotonic()

    def finish(self, experiment: str) -> None:
        """Record that the training of an experiment has ended."""
        self._finished[experiment] = time.monotonic()

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite ``simulated.din, seed 1, …`` to ``din (11 of 26), seed 1, …`` and append the remaining time."""
        experiment = str(getattr(record, "fit", "")).split(",", maxsplit=1)[0]
        if experiment in self._started:
            self._logged.add(experiment)
            line = record.getMessage().removeprefix(experiment)
            name = experiment.split(".", 1)[1] if self._one_dataset else experiment
            if len(self._experiments) > 1:
                name += f" ({self._experiments.index(experiment) + 1} of {len(self._experiments)})"
            record.msg, record.args = f"{name}{line}{self._remaining()}", ()
        return True

    def _remaining(self) -> str:
        """Return the last part of the line, such as `` · about 4 min of training left``; empty in the beginning.

        The time of a model is the median over the finished ones, by which those that have compiled kernels do not count.
        """
        if os.getpid() != self._process:
            return ""
        trained = [name for name in self._finished if name in self._logged and _time_of(name)]
        if sum(map(_time_of, trained)) < 3:
            return ""
        now = time.monotonic()
        unit = statistics.median_low(
            (self._finished[name] - self._started[name]) / _time_of(name) for name in trained
        )
        running = sum(now - begin for name, begin in self._started.items() if name not in self._finished)
        ahead = sum(_time_of(name) for name in self._experiments if name not in self._finished)
        return f" · about {format_duration(max(unit * ahead - running, 1.0))} of training left"


class ProgressHooks:
    """Say in each log line of a fit which of the run's models it is."""

    def __init__(self) -> None:
        self._progress = TrainingProgress([])

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline) -> None:
        """Count the models that the run trains."""
        self._end()
        self._progress = TrainingProgress([name for node in pipeline.nodes for name in _trained(node)])
        log_lines.logger.addFilter(self._progress)

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        for experiment in _trained(node):
            self._progress.start(experiment)

    @hook_impl
    def after_node_run(self, node: Node) -> None:
        for experiment in _trained(node):
            self._progress.finish(experiment)

    @hook_impl
    def after_pipeline_run(self) -> None:
        self._end()

    @hook_impl
    def on_pipeline_error(self) -> None:
        self._end()

    def _end(self) -> None:
        log_lines.logger.removeFilter(self._progress)


def _trained(node: Node) -> list[str]:
    """Return the experiments that a node trains: those whose checkpoint it writes."""
    return [name.removesuffix(_CHECKPOINT) for name in node.outputs if name.endswith(_CHECKPOINT)]


def _time_of(experiment: str) -> int:
    model = experiment.split(".", 1)[1]
    return next((times for prefix, times in _TIMES.items() if model.startswith(prefix)), 1)


def _table_order(experiment: str) -> tuple[str, int, bool]:
    dataset, model = experiment.split(".", 1)
    key = without_variant(model)
    return dataset, list(MODELS).index(key) if key in MODELS else len(MODELS), key != model
