"""One node for each row that is kept fresh."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.score.nodes import score


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Users and candidates of ``dataset`` to the scores of ``model``'s champion."""
    own = f"{dataset}.{model}"
    node = Node(
        score,
        inputs=[
            f"{dataset}.days", f"{own}.registry", f"{dataset}.score_users", f"{dataset}.score_candidates",
            f"params:datasets.{dataset}", "params:retraining", "params:training",
        ],
        outputs=f"{own}.scores", name="score", namespace=own,
    )  # fmt: skip
    return Pipeline([node], tags=[dataset, model, "score"])
