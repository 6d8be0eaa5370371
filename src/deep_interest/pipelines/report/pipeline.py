"""Three nodes for each table: figures, page, picture; a fourth for learning curves; one for a single row."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import MODELS, Table
from deep_interest.pipelines.report import plots
from deep_interest.pipelines.report.nodes import make_compare, make_curves, make_figure, make_page

PRESENT = ("log", "features", "samples")  # what predictions are checked against
COMPARED = ("base", "din_softmax", "dien")  # rows of the pictures that show a few
FIGURES = tuple(
    f"{name}_figure"
    for name in (
        "results",
        "seeds",
        "groups",
        "calibration",
        "speed",
        "structure",
        "activation",
        "attention",
        "embedding",
        "auxiliary",
        "evolution",
    )
)  # in the order of the report
MEASURED = ("din", "din_softmax", "gru_augru", "dien")  # rows whose structure is measured where it is known


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
                make_curves(table), inputs=curves, outputs=f"{own}.curves_figure", name="draw_curves", namespace=own,
            )
        )  # fmt: skip
    return Pipeline(nodes, tags=[dataset, name or "report"])


def create_plots_pipeline(dataset: str, rows: Table) -> Pipeline:
    """A dataset's trained rows to the papers' pictures and those of its table; those whose rows the table lacks are left out."""
    settings = f"params:datasets.{dataset}"
    entities = {
        name: f"{dataset}.{name}" for name in ("log", "features", "samples", "user_ids", "item_ids", "items")
    }
    present = {name: f"{dataset}.{name}" for name in PRESENT}
    compared = {model: f"{dataset}.{model}.predictions" for model in COMPARED if model in rows.models}
    every = {model: f"{dataset}.{model}.predictions" for model in rows.models}

    def node(function: Callable[..., Any], inputs: Any, *outputs: str) -> Node:
        own = [f"{dataset}.{name}" for name in outputs]
        return Node(
            function, inputs, own if len(own) > 1 else own[0], name=function.__name__, namespace=dataset
        )

    def there(*models: str) -> bool:
        return set(models) <= set(rows.models)

    nodes = [
        node(
            plots.make_seeds(dataset),
            {"results": f"{dataset}.results", "settings": settings, **present, **every},
            "seeds_figure",
        ),
        node(plots.draw_speed, {"results": f"{dataset}.results", "dataset": settings}, "speed_figure"),
        node(
            plots.make_groups(dataset), {"settings": settings, **present, **compared},
            "calibration_figure", "groups_figure",
        ),
    ]  # fmt: skip
    if there("din", "din_dice"):
        prelu_and_dice = {"prelu": f"{dataset}.din.checkpoint", "dice": f"{dataset}.din_dice.checkpoint"}
        nodes.append(node(plots.draw_activation, prelu_and_dice, "activation_figure"))
    if there("din_softmax"):
        attention = {"attention": f"{dataset}.din_softmax.checkpoint", **entities}
        nodes.append(node(plots.draw_attention, attention, "attention_figure", "embedding_figure"))
    if there("dien"):
        evolution = {"evolution": f"{dataset}.dien.checkpoint", **entities}
        nodes.append(node(plots.draw_evolution, evolution, "evolution_figure"))
    if there("dien", "gru_augru"):
        curves = {
            "with_loss": f"{dataset}.dien.learning_curves",
            "without": f"{dataset}.gru_augru.learning_curves",
        }
        nodes.append(node(plots.draw_auxiliary, curves, "auxiliary_figure"))
    measured = {model: f"{dataset}.{model}.checkpoint" for model in MEASURED if there(model)}
    if dataset == "simulated" and measured:
        inputs = {**entities, "simulation": "params:simulation", **measured}
        nodes.append(node(plots.measure_structure, inputs, "structure", "structure_figure"))
    made = {output for each in nodes for output in each.outputs}
    drawn = [name for name in FIGURES if f"{dataset}.{name}" in made | {f"{dataset}.results_figure"}]
    page = {"results": f"{dataset}.results", "summary": f"{dataset}.samples_summary", "parameters": settings}
    page |= {name: f"{dataset}.{name}" for name in drawn}
    page["other_figures"] = f"{dataset}.other_figures"
    page |= {f"{model}_settings": f"{dataset}.{model}.settings" for model in rows.models}
    nodes.append(node(plots.make_report(dataset), page, "report"))
    return Pipeline(nodes, tags=[dataset, "report"])


def create_model_pipeline(dataset: str, model: str) -> Pipeline:
    """Predictions of one model to its row alone, beside the whole table of the dataset."""
    row = Table(MODELS[model].name, (model,))
    return Pipeline(
        [_compare(f"{dataset}.{model}", row, f"{dataset}.{model}.results", dataset=dataset)],
        tags=[dataset, model],
    )


def _compare(namespace: str, table: Table, output: str, *, dataset: str) -> Node:
    inputs = {name: f"{dataset}.{name}" for name in PRESENT} | {"evaluation": "params:evaluation"}
    for model in table.models:
        inputs |= {
            f"{model}_predictions": f"{dataset}.{model}.predictions",
            f"{model}_curves": f"{dataset}.{model}.learning_curves",
        }
    return Node(
        make_compare(dataset, table), inputs=inputs, outputs=output, name="compare", namespace=namespace
    )
