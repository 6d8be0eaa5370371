"""Two nodes for each experiment, in the namespace ``<dataset>.<model>``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import TUNED_SUFFIX
from deep_interest.pipelines.train.nodes import make_train, predict


def create_pipeline(dataset: str, model: str, *, tuned: bool = False) -> Pipeline:
    """Samples of ``dataset`` to the test predictions of ``model``.

    Args:
        dataset, model: the keys.
        tuned: with the values that the row's search has found, as a row of its own beside the untuned one.
    """
    train = Node(
        make_train(dataset, model, tuned=tuned),
        inputs=[
            "log",
            "features",
            "samples",
            "params:model",
            "params:dataset",
            "params:recipes",
            "params:training",
            "tuned",
        ],
        outputs=["checkpoint", "learning_curves", "settings"],
        name="train",
    )
    score = Node(
        predict,
        inputs=["checkpoint", "log", "features", "samples", "params:training"],
        outputs="predictions",
        name="predict",
    )
    return Pipeline(
        [train, score],
        namespace=f"{dataset}.{model}{TUNED_SUFFIX if tuned else ''}",
        inputs={
            "tuned": f"{dataset}.{model}.tuned" if tuned else f"{dataset}.tuned",
            **{name: f"{dataset}.{name}" for name in ("log", "features", "samples")},
        },
        parameters={
            "params:model": f"params:models.{model}",
            "params:dataset": f"params:datasets.{dataset}",
            "params:recipes": "params:recipes",
            "params:training": "params:training",
        },
        tags=[dataset, model],
    )
