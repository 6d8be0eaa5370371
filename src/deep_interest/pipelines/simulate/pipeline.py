"""Simulated log: parameters in, a folder of raw tables out."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.simulate.nodes import simulate


def create_pipeline() -> Pipeline:
    """One node: its tables are streamed to Parquet while they are drawn."""
    node = Node(simulate, inputs="params:simulation", outputs="raw_log", name="simulate")
    return Pipeline([node], namespace="simulated", parameters={"params:simulation"}, tags=["simulated"])
