"""Two nodes per dataset: vocabularies and samples."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DatasetSpec
from deep_interest.pipelines.samples import nodes
from deep_interest.pipelines.wiring import DATA, dataset_pipeline


def create_pipeline(dataset: str, spec: DatasetSpec) -> Pipeline:
    """Return the pipeline from the canonical tables of ``dataset`` to its log, features and samples."""
    impression_tables = ["users", "impressions"] if spec.impressions else []
    vocabularies = Node(
        nodes.build_vocabularies,
        inputs=["behaviors", "items", *impression_tables[1:]],
        outputs=["user_ids", "item_ids"],
        name=f"{dataset}.build_vocabularies",
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
        outputs=[*DATA, "samples_summary"],
        name=f"{dataset}.make_samples",
    )
    return dataset_pipeline([vocabularies, make_samples], dataset, namespace="samples", tags=["samples"])
