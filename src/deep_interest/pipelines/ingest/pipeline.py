"""One node for each dataset: its source's reader."""

from kedro.pipeline import Node, Pipeline

from deep_interest.grid import DatasetRow
from deep_interest.pipelines.ingest import nodes

_READERS = {
    "amazon": (nodes.ingest_amazon, ["reviews", "metadata"]),
    "movielens": (nodes.ingest_movielens, ["archive"]),
    "tables": (nodes.ingest_behavior_tables, ["raw_log"]),
}


def create_pipeline(dataset: str, row: DatasetRow) -> Pipeline:
    """Raw files of ``dataset`` to its canonical tables."""
    reader, raw = _READERS[row.source]
    if row.impressions:
        reader = nodes.ingest_tables
    outputs = ["behaviors", "items", "left_out", *(["users", "impressions"] if row.impressions else [])]
    node = Node(reader, inputs=[*raw, "params:dataset"], outputs=outputs, name="ingest")
    parameters = {"params:dataset": f"params:datasets.{dataset}"}
    return Pipeline([node], namespace=dataset, parameters=parameters, tags=[dataset, "ingest"])
