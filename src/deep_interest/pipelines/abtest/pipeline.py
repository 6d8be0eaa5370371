"""Nodes of a test: read, compare, draw, report."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.abtest import nodes

_TABLES = ("readout", "by_day", "by_tenure", "checks")
_FIGURES = ("metrics_figure", "days_figure", "novelty_figure")


def create_pipeline(test: str) -> Pipeline:
    """Return the pipeline from the log of a test to its table, plots and page.

    Args:
        test: key of the test under ``abtests``.
    """
    prefix, settings = f"abtests.{test}", f"params:abtests.{test}"

    def entries(*names: str) -> list[str]:
        return [f"{prefix}.{name}" for name in names]

    steps: list[tuple[Callable[..., Any], list[str], str | list[str]]] = [
        (nodes.make_read(test), entries("raw_log"), entries("user_days", "pre_period", "left_out")),
        (nodes.compare, entries("user_days", "pre_period"), entries(*_TABLES)),
        (nodes.draw_metrics, entries("readout"), f"{prefix}.metrics_figure"),
        (nodes.draw_days, entries("by_day"), f"{prefix}.days_figure"),
        (nodes.draw_novelty, entries("by_tenure", "readout"), f"{prefix}.novelty_figure"),
        (nodes.write_page, entries(*_TABLES, "left_out"), f"{prefix}.readout_page"),
        (nodes.write_report, entries(*_TABLES, "left_out", *_FIGURES), f"{prefix}.report"),
    ]
    return Pipeline(
        [
            Node(
                function,
                [*inputs, settings],
                outputs,
                name=f"{prefix}.{function.__name__}",
                namespace="abtest",
            )
            for function, inputs, outputs in steps
        ],
        tags=[test, "abtest"],
    )
