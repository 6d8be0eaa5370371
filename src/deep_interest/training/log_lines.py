"""Log lines of a fit: one per evaluation, and one when kernels have to be compiled.

A line begins with the label of its fit, such as ``simulated.din, seed 1``; its record has the label as the attribute ``fit``, so
that a run that trains many models can add which one it is (`hooks.progress`).
"""

import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)

_METRICS = {
    "train_loss": "loss", "auxiliary_loss": "auxiliary loss", "validation_gauc": "val GAUC", "validation_auc": "val AUC",
    "validation_logloss": "val loss", "test_loss": "test loss", "test_gauc": "test GAUC",
}  # fmt: skip
"""Columns of an evaluation that the log shows, and their names there."""


def log_evaluation(label: str, row: Mapping[str, float], *, epochs: int, samples_per_second: float) -> None:
    """Log one evaluation: ``simulated.din, seed 1, epoch 2 of 3 · loss 0.490 · val GAUC 0.680 · 92.1k samples/s``.

    Args:
        label: name of the fit.
        row: evaluation, as in the learning curves.
        epochs: maximum number of epochs.
        samples_per_second: training speed so far.
    """
    metrics = [f"{name} {row[column]:.3f}" for column, name in _METRICS.items() if column in row]
    line = [
        f"{label}, epoch {row['epoch']:.3g} of {epochs}",
        *metrics,
        f"{format_rate(samples_per_second)} samples/s",
    ]
    logger.info("%s", " · ".join(line), extra={"fit": label})


def log_compilation(label: str) -> None:
    """Log that kernels are compiled; of the parallel fits of a model, one line is shown."""
    logger.info(
        "%s: compiling kernels for the CPU, once per machine …",
        label.split(",", maxsplit=1)[0],
        extra={"once": True},
    )


def format_rate(value: float) -> str:
    """Format a rate with three significant digits: ``18.9k``, ``1.25M``."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def format_duration(seconds: float) -> str:
    """Format a rough duration: ``20 s``, ``4 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{max(round(seconds, -1), 10):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
