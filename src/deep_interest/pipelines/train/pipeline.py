"""Two nodes for each cell, in the namespace ``<dataset>.<model>``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.train.nodes import make_train, predict


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Samples of ``dataset`` to the test predictions of ``model``."""
    train = Node(
        make_train(dataset, model),
        inputs=[
            "log",
            "features",
            "samples",
            "params:model",
            "params:dataset",
            "params:recipes",
            "params:training",
        ],
        outputs=["checkpoint", "learning_curves"],
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
        namespace=f"{dataset}.{model}",
        inputs={name: f"{dataset}.{name}" for name in ("log", "features", "samples")},
        parameters={
            "params:model": f"params:models.{model}",
            "params:dataset": f"params:datasets.{dataset}",
            "params:recipes": "params:recipes",
            "params:training": "params:training",
        },
        tags=[dataset, model],
    )
