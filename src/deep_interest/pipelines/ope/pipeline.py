"""Nodes of an off-policy evaluation: estimate, draw, report."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.ope import nodes


def create_pipeline(name: str) -> Pipeline:
    """Return the pipeline from the log of a version to what another one would have earned.

    Args:
        name: key of the evaluation under ``ope``.
    """
    prefix, settings = f"ope.{name}", f"params:ope.{name}"

    def entries(*names: str) -> list[str]:
        return [f"{prefix}.{entry}" for entry in names]

    steps: list[tuple[Callable[..., Any], list[str], str | list[str]]] = [
        (
            nodes.make_estimate(name),
            entries("raw_log"),
            entries("estimates", "weights", "checks", "left_out"),
        ),
        (nodes.draw_estimates, entries("estimates", "checks"), f"{prefix}.estimates_figure"),
        (nodes.draw_weights, entries("weights"), f"{prefix}.weights_figure"),
        (nodes.write_page, entries("estimates", "checks", "left_out"), f"{prefix}.estimates_page"),
        (
            nodes.write_report,
            entries("estimates", "checks", "left_out", "estimates_figure", "weights_figure"),
            f"{prefix}.report",
        ),
    ]
    return Pipeline(
        [
            Node(
                function, [*inputs, settings], outputs, name=f"{prefix}.{function.__name__}", namespace="ope"
            )
            for function, inputs, outputs in steps
        ],
        tags=[name, "ope"],
    )
