"""Three nodes: check the days, replay them, summarise the results."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.backtest import nodes

_SHARED = ("backtest", "models", "recipes", "training", "retraining")


def create_pipeline() -> Pipeline:
    """Return the pipeline from the simulated days to the gain and cost of each retraining strategy."""
    steps = [
        Node(
            nodes.check, inputs=["days", "params:dataset", "params:retraining"], outputs="checked", name="check_days",
        ),
        Node(
            nodes.replay,
            inputs=["days", "checked", "params:dataset", *(f"params:{name}" for name in _SHARED)],
            outputs="by_day", name="replay",
        ),
        Node(
            nodes.summarize, inputs=["by_day", "checked"], outputs=["results", "results_page", "results_figure"],
            name="summarize",
        ),
    ]  # fmt: skip
    parameters = {f"params:{name}": f"params:{name}" for name in _SHARED}
    return Pipeline(
        steps,
        namespace="simulated.backtest",
        inputs={"days": "simulated.days"},
        parameters=parameters | {"params:dataset": "params:datasets.simulated"},
        tags=["backtest"],
    )
