"""A node for the dataset, which takes the test set away, and two for each experiment, in the namespace ``<dataset>.<model>``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.tune.nodes import hide_test, make_figure, make_tune


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Samples of ``dataset`` to the best values of ``model``'s options."""
    inputs = [
        "log", "features", "tuning_samples", "params:model", "params:dataset", "params:recipes", "params:training",
        "params:tuning",
    ]  # fmt: skip
    nodes = [
        Node(make_tune(dataset, model), inputs=inputs, outputs=["tuned", "trials"], name="tune"),
        Node(make_figure(model), inputs=["trials", "tuned"], outputs="tuning_figure", name="draw_tuning"),
    ]
    hide = Node(
        hide_test, inputs=f"{dataset}.samples", outputs=f"{dataset}.tuning_samples", name="hide_test", namespace=dataset,
        tags=[dataset, "tune"],
    )  # fmt: skip
    row = Pipeline(
        nodes,
        namespace=f"{dataset}.{model}",
        inputs={name: f"{dataset}.{name}" for name in ("log", "features", "tuning_samples")},
        parameters={
            "params:model": f"params:models.{model}",
            "params:dataset": f"params:datasets.{dataset}",
            "params:recipes": "params:recipes",
            "params:training": "params:training",
            "params:tuning": "params:tuning",
        },
        tags=[dataset, model, "tune"],
    )
    return Pipeline([hide, row])
