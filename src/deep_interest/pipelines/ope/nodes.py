"""Read the log of a version, estimate what another version would have earned, and write table, plots and page."""

import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deep_interest.figures.chart import Chart
from deep_interest.offpolicy.assembly import assemble
from deep_interest.offpolicy.evaluation import evaluate
from deep_interest.offpolicy.page import evaluation_markdown, verdict
from deep_interest.offpolicy.parameters import OffPolicyParameters
from deep_interest.pipelines.factories import node_factory
from deep_interest.sources.tables.decisions import read_decisions

logger = logging.getLogger(__name__)

_CLASSES = (
    0.0,
    0.1,
    0.5,
    2.0,
    10.0,
    100.0,
)  # lower bounds of the classes of weights, of which the first one is 0 itself


@node_factory
def make_estimate(
    name: str,
) -> Callable[..., tuple[pd.DataFrame, pd.DataFrame, dict[str, Any], dict[str, int]]]:
    """Return the node function that reads the tables of an evaluation from its folder and estimates."""

    def estimate(
        raw_log: Path, settings: OffPolicyParameters
    ) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any], dict[str, int]]:
        """Return the estimates, the distribution of the weights, what they rest on, and counts of skipped rows."""
        source = settings.source
        folder = raw_log / (name if source.folder is None else source.folder)
        tables = read_decisions(folder, source, on_bad_line=settings.reading.on_bad_line)
        for reason, rows in tables.left_out.items():
            logger.warning("left out: %s %s", f"{rows:,}", reason)
        assembled = assemble(tables, settings)
        found = evaluate(assembled.decisions, slate=settings.slate, unseen=assembled.unseen)
        own = assembled.target_reward
        checks = found.checks | {"target_reward": own if np.isfinite(own) else None}
        sentence = verdict(found.results, checks, logged=settings.logged, evaluated=settings.evaluated)
        logger.log(logging.WARNING if checks["refusals"] else logging.INFO, "%s", sentence)
        return found.results, weight_classes(found.weights), checks, tables.left_out

    return estimate


def weight_classes(weights: np.ndarray) -> pd.DataFrame:
    """Return shares of rows and of the weight by class of the weight: ``weights`` (name), ``rows``, ``weight``."""
    number = np.where(weights == 0, 0, np.searchsorted(_CLASSES[1:], weights, side="right") + 1)
    names = [
        "0",
        "below 0.1",
        *(f"{low:g} to {high:g}" for low, high in pairwise(_CLASSES[1:])),
        "100 and more",
    ]
    total = float(weights.sum()) or 1.0
    return pd.DataFrame(
        {
            "weights": names,
            "rows": np.bincount(number, minlength=len(names)) / len(weights),
            "weight": np.bincount(number, weights=weights, minlength=len(names)) / total,
        }
    )


def write_page(
    results: pd.DataFrame, checks: dict[str, Any], left_out: dict[str, int], settings: OffPolicyParameters
) -> str:
    """Return the Markdown page."""
    return evaluation_markdown(
        results, checks, left_out, title=settings.title, logged=settings.logged, evaluated=settings.evaluated
    )


def draw_estimates(results: pd.DataFrame, checks: dict[str, Any], settings: OffPolicyParameters) -> Chart:
    """Return the chart of the estimates."""
    from deep_interest.figures.offpolicy import estimates_chart

    return estimates_chart(
        results, checks, title=f"{settings.title}: what {settings.evaluated} would have earned"
    )


def draw_weights(weights: pd.DataFrame, settings: OffPolicyParameters) -> Chart:
    """Return the chart of the weights."""
    from deep_interest.figures.offpolicy import weights_chart

    return weights_chart(weights, title=f"{settings.title}: weights")


def write_report(
    results: pd.DataFrame, checks: dict[str, Any], left_out: dict[str, int], estimates: dict[str, Any], weights: dict[str, Any],
    settings: OffPolicyParameters,
) -> str:  # fmt: skip
    """Return the page ``report.html``."""
    from deep_interest.reporting.offpolicy import evaluation_html

    return evaluation_html(
        results, checks, left_out, title=settings.title, logged=settings.logged, evaluated=settings.evaluated,
        figures={"estimates": estimates, "weights": weights},
    )  # fmt: skip
