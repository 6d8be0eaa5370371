"""From the days of a dataset to the costs of each choice about delayed clicks: table, page and chart."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DELAYED_CLICKS
from deep_interest.pipelines.delayed_clicks import nodes
from deep_interest.pipelines.wiring import dataset_pipeline

_SHARED = ("backtest", "models", "recipes", "training", "retraining")


def create_pipeline(dataset: str) -> Pipeline:
    """Return the pipeline from the days of ``dataset`` to the costs of each choice, for the model ``backtest.model``."""
    steps = [
        Node(
            nodes.make_replay(dataset),
            inputs=["days", "params:dataset", *(f"params:{name}" for name in _SHARED)],
            outputs=[f"{DELAYED_CLICKS}.results", f"{DELAYED_CLICKS}.rejected_days"],
            name=f"{dataset}.replay_nights",
        ),
        Node(
            nodes.summarize,
            inputs=[f"{DELAYED_CLICKS}.results", f"{DELAYED_CLICKS}.rejected_days"],
            outputs=[f"{DELAYED_CLICKS}.results_page", f"{DELAYED_CLICKS}.costs_figure"],
            name=f"{dataset}.compare_choices",
        ),
    ]
    return dataset_pipeline(steps, dataset, namespace=DELAYED_CLICKS, tags=[DELAYED_CLICKS])
