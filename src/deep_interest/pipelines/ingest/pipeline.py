"""One node for each dataset: its source's reader."""

from collections.abc import Callable

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import DatasetSpec
from deep_interest.pipelines.ingest import nodes


def create_pipeline(dataset: str, row: DatasetSpec) -> Pipeline:
    """Raw files of ``dataset`` to its canonical tables."""
    reader, raw = _reader(dataset, row)
    outputs = ["behaviors", "items", "left_out", *(["users", "impressions"] if row.impressions else [])]
    node = Node(reader, inputs=[*raw, "params:dataset"], outputs=outputs, name="ingest")
    parameters = {"params:dataset": f"params:datasets.{dataset}"}
    return Pipeline([node], namespace=dataset, parameters=parameters, tags=[dataset, "ingest"])


def _reader(dataset: str, row: DatasetSpec) -> tuple[Callable, list[str]]:
    """The node's function and the raw files that it takes."""
    if row.source == "tables":
        make = nodes.make_ingest_tables if row.impressions else nodes.make_ingest_behaviors
        return make(dataset), ["raw_log"]
    return {
        "amazon": (nodes.ingest_amazon, ["reviews", "metadata"]),
        "movielens": (nodes.ingest_movielens, ["archive"]),
    }[row.source]
