"""Three nodes for each table: figures, page, picture; a fourth for learning curves; one for a single row."""

from kedro.pipeline import Node, Pipeline

from deep_interest.grid import MODELS, Table
from deep_interest.pipelines.report.nodes import draw_curves, make_compare, make_figure, make_page


def create_pipeline(dataset: str, table: Table, *, name: str | None = None) -> Pipeline:
    """Predictions of a table's rows to the table, its page and its picture.

    Args:
        dataset: the dataset's key.
        table: which rows.
        name: of an ablation's table; the dataset's own table if left out.
    """
    own = f"{dataset}.{name}" if name else dataset
    settings = f"params:datasets.{dataset}"
    nodes = [
        _compare(own, table, f"{own}.results", dataset=dataset),
        Node(
            make_page(dataset, table), inputs=[f"{own}.results", f"{dataset}.samples", settings],
            outputs=f"{own}.results_page", name="write_page", namespace=own,
        ),
        Node(
            make_figure(table), inputs=[f"{own}.results", settings], outputs=f"{own}.results_figure",
            name="draw_results", namespace=own,
        ),
    ]  # fmt: skip
    if table.curves:
        curves = {model: f"{dataset}.{model}.learning_curves" for model in table.models}
        nodes.append(
            Node(
                draw_curves, inputs=curves, outputs=f"{own}.curves_figure", name="draw_curves", namespace=own,
            )
        )  # fmt: skip
    return Pipeline(nodes, tags=[dataset, name or "report"])


def create_row_pipeline(dataset: str, model: str) -> Pipeline:
    """Predictions of one model to its row alone, beside the whole table of the dataset."""
    row = Table(MODELS[model].name, (model,))
    return Pipeline(
        [_compare(f"{dataset}.{model}", row, f"{dataset}.{model}.results", dataset=dataset)],
        tags=[dataset, model],
    )


def _compare(namespace: str, table: Table, output: str, *, dataset: str) -> Node:
    inputs = {"samples": f"{dataset}.samples"}
    for model in table.models:
        inputs |= {
            f"{model}_predictions": f"{dataset}.{model}.predictions",
            f"{model}_curves": f"{dataset}.{model}.learning_curves",
        }
    return Node(make_compare(table), inputs=inputs, outputs=output, name="compare", namespace=namespace)
