"""One node per retrainable model, in the namespace ``<dataset>.<model>``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.score.nodes import score


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline that scores the users and candidates of ``dataset`` with the champion of ``model``."""
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
