"""One node per retrainable experiment."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.score.nodes import make_score
from deep_interest.pipelines.wiring import dataset_entries, experiment_pipeline


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline that scores the users and candidates of ``dataset`` with the champion of ``model``."""
    tables = ("score_users", "score_candidates")
    parameters = ["params:dataset", "params:retraining", "params:training"]
    node = Node(
        make_score(dataset, model),
        inputs=["days", "registry", *tables, *parameters],
        outputs="scores",
        name=f"{dataset}.{model}.score",
    )
    entries = dataset_entries(dataset, "days", *tables)
    return experiment_pipeline([node], dataset, model, entries=entries, tags=["score"])
