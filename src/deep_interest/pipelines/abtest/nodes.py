"""Read the log of an A/B test, compare its arms, and write table, plots and page."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from deep_interest.abtest.metrics import QUANTITIES
from deep_interest.abtest.page import readout_markdown, sentences_of
from deep_interest.abtest.parameters import ABTestParameters
from deep_interest.abtest.readout import Readout, read_out
from deep_interest.abtest.sentences import warnings_of
from deep_interest.abtest.user_days import UserDays
from deep_interest.figures.chart import Chart
from deep_interest.pipelines.factories import node_factory
from deep_interest.sources.tables.exposures import read_exposures

logger = logging.getLogger(__name__)


@node_factory
def make_read(test: str) -> Callable[..., tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]]:
    """Return the node function that reads the log of a test from its folder."""

    def read(raw_log: Path, settings: ABTestParameters) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
        """Return sums by user, arm and day, sums by user before the test, and counts of skipped rows."""
        source = settings.source
        assert source is not None, "simulated tests have another node"
        found = read_exposures(
            raw_log / (test if source.folder is None else source.folder), source, arms=list(settings.split),
            start=settings.start, on_bad_line=settings.reading.on_bad_line,
        )  # fmt: skip
        for reason, rows in found.left_out.items():
            logger.warning("left out: %s %s", f"{rows:,}", reason)
        return found.user_days, found.pre_period, found.left_out

    return read


def compare(
    user_days: pd.DataFrame, pre_period: pd.DataFrame, settings: ABTestParameters
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """Return the results, the lifts by day and by days since the first exposure, and what they rest on."""
    quantities = list(QUANTITIES)
    before = (pre_period["user"].to_numpy(), pre_period[quantities].to_numpy()) if len(pre_period) else None
    log = UserDays.of(
        user_days["user"].to_numpy(), user_days["arm"].to_numpy(), user_days["day"].to_numpy(),
        user_days[quantities].to_numpy(), arm_names=list(settings.split), pre_period=before,
    )  # fmt: skip
    found = read_out(
        log, control=settings.control, split=settings.split, expected_lift=settings.expected_lift,
        planned_days=settings.planned_days,
    )  # fmt: skip
    for sentence in warnings_of(found.checks):
        logger.warning("%s", sentence)
    for sentence in sentences_of(found, expected_lift=settings.expected_lift):
        logger.info("%s", sentence)
    return found.results, found.by_day, found.by_tenure, found.checks


def write_page(
    results: pd.DataFrame, by_day: pd.DataFrame, by_tenure: pd.DataFrame, checks: dict[str, Any], left_out: dict[str, int],
    settings: ABTestParameters,
) -> str:  # fmt: skip
    """Return the Markdown page."""
    found = Readout(results, by_day, by_tenure, checks)
    return readout_markdown(
        found, title=settings.title, expected_lift=settings.expected_lift, left_out=left_out
    )


def draw_metrics(results: pd.DataFrame, settings: ABTestParameters) -> Chart:
    """Return the chart of all lifts."""
    from deep_interest.figures.abtest import metrics_chart

    return metrics_chart(results, title=f"{settings.title}: lifts over {settings.control}")


def draw_days(by_day: pd.DataFrame, settings: ABTestParameters) -> Chart:
    """Return the chart of the lifts by day."""
    from deep_interest.figures.abtest import days_chart

    return days_chart(by_day, title=f"{settings.title}: lift up to each day")


def draw_novelty(by_tenure: pd.DataFrame, results: pd.DataFrame, settings: ABTestParameters) -> Chart:
    """Return the chart of the lifts by days since the first exposure."""
    from deep_interest.figures.abtest import novelty_chart

    return novelty_chart(
        by_tenure, results, title=f"{settings.title}: lift by days since a user's first exposure"
    )


def write_report(
    results: pd.DataFrame, by_day: pd.DataFrame, by_tenure: pd.DataFrame, checks: dict[str, Any], left_out: dict[str, int],
    metrics: dict[str, Any], days: dict[str, Any], fading: dict[str, Any], settings: ABTestParameters,
) -> str:  # fmt: skip
    """Return the page ``report.html``."""
    from deep_interest.reporting.abtest import abtest_html

    return abtest_html(
        Readout(results, by_day, by_tenure, checks), title=settings.title, expected_lift=settings.expected_lift, left_out=left_out,
        figures={"metrics": metrics, "days": days, "novelty": fading},
    )  # fmt: skip
