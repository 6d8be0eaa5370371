"""Two nodes per retrainable experiment: compare and require."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.parity.nodes import make_compare, make_require
from deep_interest.pipelines.wiring import dataset_entries, experiment_pipeline


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline that compares what the service of ``model`` has served with batch scoring."""
    compare = Node(
        make_compare(dataset, model),
        inputs=["served_requests", "days", "registry", "params:dataset", "params:retraining"],
        outputs="parity",
        name=f"{dataset}.{model}.compare_served",
    )
    require = Node(
        make_require(dataset, model), inputs="parity", outputs=None, name=f"{dataset}.{model}.require_parity"
    )
    entries = dataset_entries(dataset, "days")
    return experiment_pipeline([compare, require], dataset, model, entries=entries, tags=["parity"])
