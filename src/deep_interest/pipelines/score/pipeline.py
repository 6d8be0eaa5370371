"""One node for each row that is kept fresh, in the namespace ``<dataset>.<model>``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.score.nodes import score


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Users and candidates of ``dataset`` to the scores of ``model``'s champion."""
    parameters = {
        "params:dataset": f"params:datasets.{dataset}",
        "params:retraining": "params:retraining",
        "params:training": "params:training",
    }
    shared = ("days", "score_users", "score_candidates")
    node = Node(
        score,
        inputs=["days", "registry", "score_users", "score_candidates", *parameters],
        outputs="scores",
        name="score",
    )
    return Pipeline(
        [node],
        namespace=f"{dataset}.{model}",
        inputs={name: f"{dataset}.{name}" for name in shared},
        parameters=parameters,
        tags=[dataset, model, "score"],
    )
