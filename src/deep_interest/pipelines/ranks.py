"""Which nodes of a pipeline all processes of ``torchrun`` run, and the pipelines of the processes that write nothing."""

import sys

from kedro.pipeline import Node, Pipeline

_OUTPUTS = (".checkpoint", ".predictions")


def runs_on_all_ranks(node: Node) -> bool:
    """Return whether all ranks run a node: it trains a model or predicts the test set."""
    return any(name.endswith(_OUTPUTS) for name in node.outputs)


def of_worker(pipeline: Pipeline) -> Pipeline:
    """Return the nodes of a pipeline that a rank other than 0 runs; without any, the process ends."""
    nodes = [node for node in pipeline.nodes if runs_on_all_ranks(node)]
    if not nodes:
        sys.exit(0)
    return Pipeline(nodes)
