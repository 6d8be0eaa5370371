"""Two nodes per dataset: vocabularies and samples."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DatasetSpec
from deep_interest.pipelines.samples import nodes


def create_pipeline(dataset: str, spec: DatasetSpec) -> Pipeline:
    """Return the pipeline from the canonical tables of ``dataset`` to its log, features and samples."""
    impression_tables = ["users", "impressions"] if spec.impressions else []
    vocabularies = Node(
        nodes.build_vocabularies,
        inputs=["behaviors", "items", *impression_tables[1:]],
        outputs=["user_ids", "item_ids"],
        name="build_vocabularies",
    )
    make_samples = Node(
        nodes.samples_from_impressions if spec.impressions else nodes.samples_from_behaviors,
        inputs=[
            "behaviors",
            "items",
            "user_ids",
            "item_ids",
            "left_out",
            "params:dataset",
            *impression_tables,
        ],
        outputs=["log", "features", "samples", "samples_summary"],
        name="make_samples",
    )
    template = Pipeline([vocabularies, make_samples])
    tables = {name: f"{dataset}.{name}" for name in ("behaviors", "items", "left_out", *impression_tables)}
    outputs = {name: f"{dataset}.{name}" for name in ("log", "features", "samples", "samples_summary")}
    parameters = {"params:dataset": f"params:datasets.{dataset}"}
    return Pipeline(
        template,
        namespace=dataset,
        inputs=tables,
        outputs=outputs,
        parameters=parameters,
        tags=[dataset, "samples"],
    )
