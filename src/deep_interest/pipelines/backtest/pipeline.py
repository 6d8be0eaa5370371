"""Three nodes: check the days, replay them, summarise the results."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.backtest import nodes
from deep_interest.pipelines.wiring import dataset_pipeline

_SHARED = ("backtest", "models", "recipes", "training", "retraining")


def create_pipeline() -> Pipeline:
    """Return the pipeline from the simulated days to the gain and cost of each retraining strategy."""
    steps = [
        Node(
            nodes.check, inputs=["days", "params:dataset", "params:retraining"], outputs="backtest.checked",
            name="simulated.check_days",
        ),
        Node(
            nodes.replay,
            inputs=["days", "backtest.checked", "params:dataset", *(f"params:{name}" for name in _SHARED)],
            outputs="backtest.by_day", name="simulated.replay",
        ),
        Node(
            nodes.summarize, inputs=["backtest.by_day", "backtest.checked"],
            outputs=["backtest.results", "backtest.results_page", "backtest.results_figure"], name="simulated.summarize",
        ),
    ]  # fmt: skip
    return dataset_pipeline(steps, "simulated", namespace="backtest", tags=["backtest"])
