"""Pipelines from predictions to the results table of a dataset, an ablation or one model, and to the report with its charts."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import MODELS, Table
from deep_interest.pipelines.report import plots
from deep_interest.pipelines.report.nodes import (
    make_compare,
    make_curves,
    make_figure,
    make_groups_table,
    make_page,
    make_position,
    make_power,
    make_smallest_model,
)
from deep_interest.pipelines.train import create_collection, create_settings
from deep_interest.pipelines.wiring import DATA

FEW_MODELS = ("base", "din_softmax", "dien")  # drawn in charts that show only a few models
GROUPED_MODELS = (
    "item_rate",
    "boosted",
    "base",
    "din",
    "din_softmax",
    "dien",
)  # compared by group of samples
PLAYABLE_MODELS = ("din", "din_softmax")  # the first that the table has can be tried in the report
MEASURED_MODELS = ("din", "din_softmax", "gru_augru", "dien")  # models whose structure is measured
REPORT_ORDER = (
    "results", "seeds", "validation", "speed", "groups", "position", "calibration", "ctr_by_day", "structure", "activation", "attention", "embedding", "auxiliary",
    "evolution",
)  # fmt: skip


def create_pipeline(dataset: str, table: Table, *, name: str | None = None) -> Pipeline:
    """Return the pipeline from trained models to a results table, its page and its chart.

    Args:
        dataset: key of the dataset.
        table: models that the table compares.
        name: name of an ablation's table; None for the dataset's own table.
    """
    prefix = f"{dataset}.{name}" if name else dataset
    settings = f"params:datasets.{dataset}"
    results = f"{prefix}.results"
    nodes = [
        _compare(dataset, table, prefix),
        _node(prefix, make_page(dataset, table), [results, f"{dataset}.samples", settings], "results_page"),
        _node(prefix, make_figure(table), [results, settings], "results_figure"),
    ]
    if table.curves:
        trained = f"{prefix}.trained_models"
        nodes.append(_node(prefix, make_curves(table), trained, "curves_figure", namespace="compare"))
    collection = create_collection(dataset, table.models, prefix)
    return Pipeline([collection, *nodes], tags=[dataset, name or "report"])


def create_plots_pipeline(
    dataset: str, table: Table, *, by_day: bool = False, has_slots: bool = False
) -> Pipeline:
    """Return the pipeline that draws the plots of a dataset's trained models and writes the report.

    A plot is omitted if the table does not have the models that it needs.

    Args:
        dataset: key of the dataset.
        table: the dataset's own table.
        by_day: whether the dataset has impressions that are split by day.
        has_slots: whether the dataset names the slots of its impressions.
    """
    nodes = [*_table_plots(dataset, table), *_model_plots(dataset, table)]
    if by_day:
        inputs = {"impressions": f"{dataset}.impressions", "dataset": f"params:datasets.{dataset}"}
        nodes.append(_node(dataset, plots.draw_days, inputs, "ctr_by_day_figure"))
    if has_slots:
        nodes += _position_nodes(dataset, table)
    nodes.append(_node(dataset, plots.describe_run, None, "run"))
    drawn = {output for node in nodes for output in node.outputs} | {f"{dataset}.results_figure"}
    figures = [f"{name}_figure" for name in REPORT_ORDER if f"{dataset}.{name}_figure" in drawn]
    inputs = {
        "results": f"{dataset}.results",
        "summary": f"{dataset}.samples_summary",
        "parameters": f"params:datasets.{dataset}",
        "recipes": "params:recipes",
        "run": f"{dataset}.run",
        "other_figures": f"{dataset}.other_figures",
        "earlier_results": f"{dataset}.earlier_results",
        "model_settings": f"{dataset}.model_settings",
        "leaderboard": f"{dataset}.leaderboard_results",
        "power": f"{dataset}.power",
        "groups": f"{dataset}.groups",
        "smallest_model": f"{dataset}.smallest_model",
        "worth": f"{dataset}.worth_results",
        **{figure: f"{dataset}.{figure}" for figure in figures},
    }
    if has_slots:
        inputs["position"] = f"{dataset}.position"
    if f"{dataset}.playable_din" in drawn:
        inputs["playable"] = f"{dataset}.playable_din"
    nodes.append(_node(dataset, plots.make_report(dataset), inputs, "report"))
    return Pipeline([create_settings(dataset), *nodes], tags=[dataset, "report"])


def create_model_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline from the predictions of one model to a table of that model alone.

    Args:
        dataset: key of the dataset.
        model: key of the model.
    """
    table = Table(MODELS[model].name, (model,))
    prefix = f"{dataset}.{model}"
    collection = create_collection(dataset, table.models, prefix)
    return Pipeline([collection, _compare(dataset, table, prefix)], tags=[dataset, model])


def _table_plots(dataset: str, table: Table) -> list[Node]:
    """Return the nodes of the plots that any set of models has.

    Those that read the predictions are in the stage ``compare``, so that the stage ``report`` only reads files.
    """
    settings, results = f"params:datasets.{dataset}", f"{dataset}.results"
    models = {name: f"{dataset}.{name}" for name in (*DATA, "trained_models")} | {"settings": settings}
    few = [model for model in FEW_MODELS if model in table.models]
    grouped = [model for model in GROUPED_MODELS if model in table.models]
    of_power = models | {"evaluation": "params:evaluation"}
    of_smallest = {name: entry for name, entry in of_power.items() if name != "settings"}
    return [
        _node(dataset, make_power(dataset, table), of_power, "power", namespace="compare"),
        _node(dataset, make_smallest_model(dataset, table), of_smallest, "smallest_model", namespace="compare"),
        _node(
            dataset, make_groups_table(dataset, grouped, table.base), models, "groups", namespace="compare"
        ),
        _node(
            dataset, plots.make_seeds(dataset), {"results": results, **models}, "seeds_figure", namespace="compare"
        ),
        _node(
            dataset, plots.make_groups(dataset, few), models, "calibration_figure", "groups_figure", namespace="compare"
        ),
        _node(dataset, plots.draw_validation, {"results": results, "dataset": settings}, "validation_figure"),
        _node(dataset, plots.draw_speed, {"results": results, "dataset": settings}, "speed_figure"),
    ]  # fmt: skip


def _model_plots(dataset: str, table: Table) -> list[Node]:
    """Return the nodes of the papers' plots, each if the table has the models that it needs."""
    entities = {name: f"{dataset}.{name}" for name in (*DATA, "user_ids", "item_ids", "items")}
    checkpoints = {model: f"{dataset}.{model}.checkpoint" for model in table.models}
    curves = {model: f"{dataset}.{model}.learning_curves" for model in table.models}
    nodes = []
    if {"din", "din_dice"} <= checkpoints.keys():
        inputs = {"prelu": checkpoints["din"], "dice": checkpoints["din_dice"]}
        nodes.append(_node(dataset, plots.draw_activation, inputs, "activation_figure"))
    if "din_softmax" in checkpoints:
        inputs = {"attention": checkpoints["din_softmax"], **entities}
        nodes.append(_node(dataset, plots.draw_attention, inputs, "attention_figure", "embedding_figure"))
    playable = [checkpoints[model] for model in PLAYABLE_MODELS if model in checkpoints]
    if playable:
        inputs = {"checkpoint": playable[0], **entities}
        nodes.append(_node(dataset, plots.export_playable_din, inputs, "playable_din"))
    if "dien" in checkpoints:
        inputs = {"evolution": checkpoints["dien"], **entities}
        nodes.append(_node(dataset, plots.draw_evolution, inputs, "evolution_figure"))
    if {"dien", "gru_augru"} <= curves.keys():
        inputs = {"with_loss": curves["dien"], "without_loss": curves["gru_augru"]}
        nodes.append(_node(dataset, plots.draw_auxiliary, inputs, "auxiliary_figure"))
    measured = {model: checkpoints[model] for model in MEASURED_MODELS if model in checkpoints}
    if dataset == "simulated" and measured:
        inputs = {**entities, "simulation": "params:simulation", **measured}
        nodes.append(_node(dataset, plots.measure_structure, inputs, "structure", "structure_figure"))
    return nodes


def _position_nodes(dataset: str, table: Table) -> list[Node]:
    """Return the nodes of the table and the plot of the effect of slots."""
    models = {name: f"{dataset}.{name}" for name in (*DATA, "trained_models")}
    settings = f"params:datasets.{dataset}"
    return [
        _node(dataset, make_position(dataset, table), models, "position", namespace="compare"),
        _node(dataset, plots.draw_position, [f"{dataset}.position", settings], "position_figure"),
    ]


def _compare(dataset: str, table: Table, prefix: str) -> Node:
    inputs = {name: f"{dataset}.{name}" for name in DATA} | {
        "evaluation": "params:evaluation",
        "trained_models": f"{prefix}.trained_models",
    }
    return _node(prefix, make_compare(dataset, table), inputs, "results", namespace="compare")


def _node(
    prefix: str, function: Callable[..., Any], inputs: str | list[str] | dict[str, str] | None, *outputs: str, namespace: str = "report"
) -> Node:  # fmt: skip
    """Return a node whose name and outputs begin with ``prefix``, the dataset or a table of the dataset."""
    names = [f"{prefix}.{output}" for output in outputs]
    return Node(
        function,
        inputs,
        names if len(names) > 1 else names[0],
        name=f"{prefix}.{function.__name__}",
        namespace=namespace,
    )
