"""From the samples of a dataset to its leaderboard: search of all models, fits with the best options, table, page and plots."""

from collections.abc import Callable
from typing import Any

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import LEADERBOARD, LEADERBOARD_SUFFIX, Table
from deep_interest.pipelines.leaderboard import nodes
from deep_interest.pipelines.train import create_collection
from deep_interest.pipelines.train import create_pipeline as create_training
from deep_interest.pipelines.tune.nodes import hide_test
from deep_interest.pipelines.wiring import DATA

Inputs = str | list[str] | dict[str, str]


def create_pipeline(dataset: str, table: Table) -> Pipeline:
    """Return the pipeline from the samples of ``dataset`` to its leaderboard.

    Args:
        dataset: key of the dataset.
        table: the dataset's own table.
    """
    prefix = f"{dataset}.{LEADERBOARD}"
    variants = [f"{model}{LEADERBOARD_SUFFIX}" for model in table.models]
    fits = [create_training(dataset, model, variant=LEADERBOARD_SUFFIX) for model in table.models]
    return Pipeline(
        [_search(dataset, table, prefix), *fits, create_collection(dataset, variants, prefix), *_pages(dataset, table, prefix)],
        tags=[dataset, LEADERBOARD],
    )  # fmt: skip


def _search(dataset: str, table: Table, prefix: str) -> Pipeline:
    inputs = {
        "log": f"{dataset}.log", "features": f"{dataset}.features", "samples": f"{dataset}.tuning_samples",
        "settings": f"params:datasets.{dataset}", "recipes": "params:recipes", "run": "params:training",
        "tuning": "params:tuning", "leaderboard": f"params:{LEADERBOARD}",
    } | {f"{nodes.OPTIONS_PREFIX}{model}": f"params:models.{model}" for model in table.models}  # fmt: skip
    return Pipeline(
        [
            Node(hide_test, f"{dataset}.samples", f"{dataset}.tuning_samples", name=f"{dataset}.hide_test", namespace="tune"),
            Node(
                nodes.make_search(dataset, table.models), inputs, [f"{prefix}.tuned", f"{prefix}.trials"],
                name=f"{prefix}.search", namespace="tune",
            ),
        ]
    )  # fmt: skip


def _pages(dataset: str, table: Table, prefix: str) -> list[Node]:
    settings, found, results = f"params:datasets.{dataset}", f"{prefix}.tuned", f"{prefix}.results"
    expected = f"{prefix}.expected_best"
    compared = {name: f"{dataset}.{name}" for name in DATA} | {
        "evaluation": "params:evaluation", "trained_models": f"{prefix}.trained_models", "found": found,
    }  # fmt: skip
    page = {
        "results": results, "found": found, "expected": expected, "samples": f"{dataset}.samples", "settings": settings,
        "leaderboard": f"params:{LEADERBOARD}",
    }  # fmt: skip
    recipe = {"found": found, "settings": settings, "recipes": "params:recipes", "run": "params:training"}
    named: list[tuple[str, Callable[..., Any], Inputs, str]] = [
        ("compare", nodes.make_compare(dataset, table.models), compared, "results"),
        ("report", nodes.tabulate_expected_best, [f"{prefix}.trials"], "expected_best"),
        ("report", nodes.make_recipe(dataset), recipe, "recipe"),
        ("report", nodes.make_page(dataset), page, "results_page"),
        ("report", nodes.draw_results, [results, settings], "results_figure"),
        ("report", nodes.draw_expected_best, [expected, settings], "expected_best_figure"),
        ("report", nodes.draw_importance, [found, settings], "importance_figure"),
        ("report", nodes.draw_cost, [results, settings], "cost_figure"),
    ]
    return [
        Node(
            function, inputs, f"{prefix}.{output}", name=f"{prefix}.{function.__name__}", namespace=namespace
        )
        for namespace, function, inputs, output in named
    ]
