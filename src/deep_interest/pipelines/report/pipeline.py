"""Three nodes for each dataset: table, page, picture; one for a single row."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.report.nodes import draw_results, make_compare, make_page


def create_pipeline(dataset: str, models: list[str]) -> Pipeline:
    """Predictions of all ``models`` to the table of ``dataset``."""
    nodes = [
        _compare(dataset, models, f"{dataset}.results"),
        Node(
            make_page(dataset),
            inputs=[f"{dataset}.results", f"{dataset}.samples", f"params:datasets.{dataset}"],
            outputs=f"{dataset}.results_page", name="write_page", namespace=dataset,
        ),
        Node(
            draw_results, inputs=[f"{dataset}.results", f"params:datasets.{dataset}"], outputs=f"{dataset}.results_figure",
            name="draw_results", namespace=dataset,
        ),
    ]  # fmt: skip
    return Pipeline(nodes, tags=[dataset, "report"])


def create_row_pipeline(dataset: str, model: str) -> Pipeline:
    """Predictions of one model to its row alone, beside the whole table of the dataset."""
    return Pipeline(
        [_compare(f"{dataset}.{model}", [model], f"{dataset}.{model}.results", dataset=dataset)],
        tags=[dataset, model],
    )


def _compare(namespace: str, models: list[str], output: str, *, dataset: str | None = None) -> Node:
    dataset = dataset or namespace
    inputs = {"samples": f"{dataset}.samples"}
    for model in models:
        inputs |= {
            f"{model}_predictions": f"{dataset}.{model}.predictions",
            f"{model}_curves": f"{dataset}.{model}.learning_curves",
        }
    return Node(make_compare(models), inputs=inputs, outputs=output, name="compare", namespace=namespace)
