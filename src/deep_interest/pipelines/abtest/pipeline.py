"""Nodes of a test: read, compare, draw, report."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.abtest import nodes, simulated

_TABLES = ("readout", "by_day", "by_tenure", "checks")
_SIMULATED = ("aa", "regret", "truth")
_SHOP = ("simulation", "datasets.simulated", "models", "recipes", "training", "retraining")
_FIGURES = ("metrics_figure", "days_figure", "novelty_figure")


def create_pipeline(test: str, *, is_simulated: bool = False) -> Pipeline:
    """Return the pipeline from the log of a test, or from its simulation, to its table, plots and page.

    Args:
        test: key of the test under ``abtests``.
        is_simulated: whether the test is simulated.
    """
    prefix, settings = f"abtests.{test}", f"params:abtests.{test}"

    def entries(*names: str) -> list[str]:
        return [f"{prefix}.{name}" for name in names]

    log = entries("user_days", "pre_period", "left_out")
    steps: list[tuple[Callable[..., Any], list[str], str | list[str]]] = [
        (nodes.compare, entries("user_days", "pre_period"), entries(*_TABLES)),
        (nodes.draw_metrics, entries("readout"), f"{prefix}.metrics_figure"),
        (nodes.draw_days, entries("by_day"), f"{prefix}.days_figure"),
        (nodes.draw_novelty, entries("by_tenure", "readout"), f"{prefix}.novelty_figure"),
        (nodes.write_page, entries(*_TABLES, "left_out"), f"{prefix}.readout_page"),
        (nodes.write_report, entries(*_TABLES, "left_out", *_FIGURES), f"{prefix}.report"),
    ]
    if is_simulated:
        page = (simulated.write_simulation_page, entries("readout", *_SIMULATED), f"{prefix}.simulation_page")
        steps.append(page)
    else:
        steps.append((nodes.make_read(test), entries("raw_log"), log))

    def node(function: Callable[..., Any], inputs: list[str], outputs: str | list[str]) -> Node:
        return Node(function, inputs, outputs, name=f"{prefix}.{function.__name__}", namespace="abtest")

    made = [node(function, [*inputs, settings], outputs) for function, inputs, outputs in steps]
    if is_simulated:
        shop = [f"params:{name}" for name in _SHOP]
        made.append(node(simulated.make_simulate(test), [settings, *shop], [*log, *entries(*_SIMULATED)]))
    return Pipeline(made, tags=[test, "abtest"])
