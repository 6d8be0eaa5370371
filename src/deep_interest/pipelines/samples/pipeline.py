"""Two nodes per dataset: vocabularies and samples."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DatasetSpec
from deep_interest.pipelines.samples import nodes
from deep_interest.pipelines.wiring import DATA, dataset_entries, dataset_pipeline


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
        outputs=[*DATA, "samples_summary"],
        name="make_samples",
    )
    return dataset_pipeline(
        [vocabularies, make_samples],
        dataset,
        inputs=dataset_entries(dataset, "behaviors", "items", "left_out", *impression_tables),
        outputs=dataset_entries(dataset, *DATA, "samples_summary"),
        tags=["samples"],
    )
