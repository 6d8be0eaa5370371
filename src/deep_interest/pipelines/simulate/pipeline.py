"""One node from the simulation's parameters to a folder of raw tables."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.simulate.nodes import simulate, simulate_days
from deep_interest.pipelines.wiring import dataset_pipeline


def create_pipeline(dataset: str = "simulated") -> Pipeline:
    """Return the pipeline of a simulated log; its tables are streamed to Parquet while they are generated.

    Args:
        dataset: ``simulated``, or a dataset whose block changes parameters of the simulation.
    """
    node = Node(
        simulate,
        inputs=["params:simulation", "params:dataset"],
        outputs="raw_log",
        name=f"{dataset}.simulate",
    )
    return dataset_pipeline([node], dataset)


def create_days_pipeline() -> Pipeline:
    """Return the pipeline of the simulated log in daily deliveries."""
    node = Node(
        simulate_days,
        inputs=["params:simulation", "params:backtest"],
        outputs="days",
        name="simulated.simulate_days",
    )
    return dataset_pipeline([node], "simulated")
