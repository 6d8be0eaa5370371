"""One node per dataset: the reader of its source."""

from collections.abc import Callable

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DatasetSpec
from deep_interest.pipelines.ingest import nodes
from deep_interest.pipelines.wiring import dataset_pipeline


def create_pipeline(dataset: str, spec: DatasetSpec) -> Pipeline:
    """Return the pipeline from the raw files of ``dataset`` to canonical tables."""
    reader, raw_files = _reader(dataset, spec)
    outputs = ["behaviors", "items", "left_out", *(["users", "impressions"] if spec.impressions else [])]
    declared = ["params:ingest"] if spec.source == "tables" else []
    node = Node(
        reader, inputs=[*raw_files, "params:dataset", *declared], outputs=outputs, name=f"{dataset}.ingest"
    )
    return dataset_pipeline([node], dataset, namespace="ingest", tags=["ingest"])


def _reader(dataset: str, spec: DatasetSpec) -> tuple[Callable, list[str]]:
    """Return the node's function and the catalog entries of the raw files."""
    if spec.source == "tables":
        make = nodes.make_ingest_tables if spec.impressions else nodes.make_ingest_behaviors
        return make(dataset), ["raw_log"]
    readers: dict[str, tuple[Callable, list[str]]] = {
        "amazon": (nodes.ingest_amazon, ["reviews", "metadata"]),
        "movielens": (nodes.ingest_movielens, ["archive"]),
    }
    return readers[spec.source]
