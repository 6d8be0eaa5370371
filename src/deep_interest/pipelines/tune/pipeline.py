"""One node per dataset, which removes the test set, and two per experiment: search and chart."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.tune.nodes import hide_test, make_figure, make_tune
from deep_interest.pipelines.wiring import (
    FIT_PARAMETERS,
    dataset_entries,
    dataset_pipeline,
    experiment_pipeline,
)


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline from the samples of ``dataset`` to the best values of the options of ``model``."""
    data = ("log", "features", "tuning_samples")
    hide = Node(hide_test, inputs="samples", outputs="tuning_samples", name=f"{dataset}.hide_test")
    nodes = [
        Node(
            make_tune(dataset, model),
            inputs=[*data, *FIT_PARAMETERS, "params:tuning"],
            outputs=["tuned", "trials"],
            name=f"{dataset}.{model}.tune",
        ),
        Node(
            make_figure(model),
            inputs=["trials", "tuned"],
            outputs="tuning_figure",
            name=f"{dataset}.{model}.draw_tuning",
        ),
    ]
    return Pipeline(
        [
            dataset_pipeline([hide], dataset, namespace="tune", tags=["tune"]),
            experiment_pipeline(
                nodes,
                dataset,
                model,
                namespace="tune",
                entries=dataset_entries(dataset, *data),
                tags=["tune"],
            ),
        ]
    )
