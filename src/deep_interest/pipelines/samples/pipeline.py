"""Two nodes for each dataset: vocabularies, then samples."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DatasetSpec
from deep_interest.pipelines.samples import nodes


def create_pipeline(dataset: str, row: DatasetSpec) -> Pipeline:
    """Canonical tables of ``dataset`` to its log, features and samples."""
    more = ["users", "impressions"] if row.impressions else []
    vocabularies = Node(
        nodes.build_vocabularies,
        inputs=["behaviors", "items", *more[1:]],
        outputs=["user_ids", "item_ids"],
        name="build_vocabularies",
    )
    make = Node(
        nodes.samples_from_impressions if row.impressions else nodes.samples_from_behaviors,
        inputs=["behaviors", "items", "user_ids", "item_ids", "left_out", "params:dataset", *more],
        outputs=["log", "features", "samples", "samples_summary"],
        name="make_samples",
    )
    template = Pipeline([vocabularies, make])
    tables = {name: f"{dataset}.{name}" for name in ("behaviors", "items", "left_out", *more)}
    made = {name: f"{dataset}.{name}" for name in ("log", "features", "samples", "samples_summary")}
    parameters = {"params:dataset": f"params:datasets.{dataset}"}
    return Pipeline(
        template,
        namespace=dataset,
        inputs=tables,
        outputs=made,
        parameters=parameters,
        tags=[dataset, "samples"],
    )
