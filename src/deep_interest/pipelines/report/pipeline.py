"""Nodes of a results table: comparison, page, chart and learning curves; and nodes of the plots and the report."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import MODELS, Table
from deep_interest.pipelines.report import plots
from deep_interest.pipelines.report.nodes import make_compare, make_curves, make_figure, make_page

DATA = ("log", "features", "samples")  # predictions must have been computed from this data
GROUP_MODELS = ("base", "din_softmax", "dien")  # models in the plots of user groups
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
STRUCTURE_MODELS = (
    "din",
    "din_softmax",
    "gru_augru",
    "dien",
)  # models whose learnt structure is compared with the simulator's


def create_pipeline(dataset: str, table: Table, *, name: str | None = None) -> Pipeline:
    """Return the pipeline from the predictions of a table's models to the results table, its page and its chart.

    Args:
        dataset: key of the dataset.
        table: models of the table.
        name: name of an ablation table; None for the dataset's own table.
    """
    namespace = f"{dataset}.{name}" if name else dataset
    settings = f"params:datasets.{dataset}"
    nodes = [
        _compare(namespace, table, f"{namespace}.results", dataset=dataset),
        Node(
            make_page(dataset, table), inputs=[f"{namespace}.results", f"{dataset}.samples", settings],
            outputs=f"{namespace}.results_page", name="write_page", namespace=namespace,
        ),
        Node(
            make_figure(table), inputs=[f"{namespace}.results", settings], outputs=f"{namespace}.results_figure",
            name="draw_results", namespace=namespace,
        ),
    ]  # fmt: skip
    if table.curves:
        curves = {model: f"{dataset}.{model}.learning_curves" for model in table.models}
        nodes.append(
            Node(
                make_curves(table), inputs=curves, outputs=f"{namespace}.curves_figure", name="draw_curves", namespace=namespace,
            )
        )  # fmt: skip
    return Pipeline(nodes, tags=[dataset, name or "report"])


def create_plots_pipeline(dataset: str, table: Table) -> Pipeline:
    """Return the pipeline from trained models to the plots of the papers, the plots of the table and the report.

    Plots of models that the table does not have are omitted.
    """
    settings = f"params:datasets.{dataset}"
    entities = {
        name: f"{dataset}.{name}" for name in ("log", "features", "samples", "user_ids", "item_ids", "items")
    }
    data = {name: f"{dataset}.{name}" for name in DATA}
    group_predictions = {
        model: f"{dataset}.{model}.predictions" for model in GROUP_MODELS if model in table.models
    }
    all_predictions = {model: f"{dataset}.{model}.predictions" for model in table.models}

    def node(function: Callable[..., Any], inputs: Any, *outputs: str) -> Node:
        entries = [f"{dataset}.{name}" for name in outputs]
        return Node(
            function,
            inputs,
            entries if len(entries) > 1 else entries[0],
            name=function.__name__,
            namespace=dataset,
        )

    def has(*models: str) -> bool:
        return set(models) <= set(table.models)

    nodes = [
        node(
            plots.make_seeds(dataset),
            {"results": f"{dataset}.results", "settings": settings, **data, **all_predictions},
            "seeds_figure",
        ),
        node(plots.draw_speed, {"results": f"{dataset}.results", "dataset": settings}, "speed_figure"),
        node(
            plots.make_groups(dataset), {"settings": settings, **data, **group_predictions},
            "calibration_figure", "groups_figure",
        ),
    ]  # fmt: skip
    if has("din", "din_dice"):
        prelu_and_dice = {"prelu": f"{dataset}.din.checkpoint", "dice": f"{dataset}.din_dice.checkpoint"}
        nodes.append(node(plots.draw_activation, prelu_and_dice, "activation_figure"))
    if has("din_softmax"):
        attention = {"attention": f"{dataset}.din_softmax.checkpoint", **entities}
        nodes.append(node(plots.draw_attention, attention, "attention_figure", "embedding_figure"))
    if has("dien"):
        evolution = {"evolution": f"{dataset}.dien.checkpoint", **entities}
        nodes.append(node(plots.draw_evolution, evolution, "evolution_figure"))
    if has("dien", "gru_augru"):
        curves = {
            "with_loss": f"{dataset}.dien.learning_curves",
            "without": f"{dataset}.gru_augru.learning_curves",
        }
        nodes.append(node(plots.draw_auxiliary, curves, "auxiliary_figure"))
    checkpoints = {model: f"{dataset}.{model}.checkpoint" for model in STRUCTURE_MODELS if has(model)}
    if dataset == "simulated" and checkpoints:
        inputs = {**entities, "simulation": "params:simulation", **checkpoints}
        nodes.append(node(plots.measure_structure, inputs, "structure", "structure_figure"))
    outputs = {output for each in nodes for output in each.outputs}
    figures = [name for name in FIGURES if f"{dataset}.{name}" in outputs | {f"{dataset}.results_figure"}]
    page = {"results": f"{dataset}.results", "summary": f"{dataset}.samples_summary", "parameters": settings}
    page |= {name: f"{dataset}.{name}" for name in figures}
    page["other_figures"] = f"{dataset}.other_figures"
    page |= {f"{model}_settings": f"{dataset}.{model}.settings" for model in table.models}
    nodes.append(node(plots.make_report(dataset), page, "report"))
    return Pipeline(nodes, tags=[dataset, "report"])


def create_model_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline from the predictions of one model to its results, separate from the dataset's table."""
    table = Table(MODELS[model].name, (model,))
    return Pipeline(
        [_compare(f"{dataset}.{model}", table, f"{dataset}.{model}.results", dataset=dataset)],
        tags=[dataset, model],
    )


def _compare(namespace: str, table: Table, output: str, *, dataset: str) -> Node:
    inputs = {name: f"{dataset}.{name}" for name in DATA} | {"evaluation": "params:evaluation"}
    for model in table.models:
        inputs |= {
            f"{model}_predictions": f"{dataset}.{model}.predictions",
            f"{model}_curves": f"{dataset}.{model}.learning_curves",
        }
    return Node(
        make_compare(dataset, table), inputs=inputs, outputs=output, name="compare", namespace=namespace
    )
