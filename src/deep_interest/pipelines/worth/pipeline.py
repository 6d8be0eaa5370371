"""From the samples of a dataset to the curves of a model: fits, table, page and chart."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import WORTH
from deep_interest.pipelines.wiring import DATA
from deep_interest.pipelines.worth import nodes


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline from the samples of ``dataset`` to the curves of ``model``.

    Args:
        dataset: key of the dataset.
        model: key of the model.
    """
    prefix, settings = f"{dataset}.{WORTH}", f"params:datasets.{dataset}"
    data = {name: f"{dataset}.{name}" for name in DATA}
    fits = {"fits": f"{prefix}.fits", "scores": f"{prefix}.test_scores"}
    fit = data | {
        "options": f"params:models.{model}", "settings": settings, "recipes": "params:recipes", "run": "params:training",
        "worth": f"params:{WORTH}",
    }  # fmt: skip
    results = f"{prefix}.results"
    named = [
        Node(nodes.make_fit(dataset, model), fit, list(fits.values()), name=f"{prefix}.fit_settings", namespace=WORTH),
        Node(
            nodes.make_compare(dataset, model), data | fits | {"evaluation": "params:evaluation"}, results,
            name=f"{prefix}.compare_settings", namespace=WORTH,
        ),
        Node(nodes.write_page, [results, settings], f"{prefix}.results_page", name=f"{prefix}.write_page", namespace=WORTH),
        Node(nodes.draw_curves, [results, settings], f"{prefix}.curves_figure", name=f"{prefix}.draw_curves", namespace=WORTH),
    ]  # fmt: skip
    return Pipeline(named, tags=[dataset, model, WORTH])
