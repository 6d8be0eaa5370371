"""Nine nodes per retrainable experiment, in the namespace ``retrain``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.retrain import TAG, nodes
from deep_interest.pipelines.wiring import FIT_PARAMETERS, dataset_entries, experiment_pipeline


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """Return the pipeline from the new days of ``dataset`` to a version of ``model`` and its promotion.

    Only the last node changes the registry's state: it records the days and the champion in one step.
    """
    experiment = f"{dataset}.{model}"
    parameters = [*FIT_PARAMETERS, "params:retraining"]
    steps = [
        Node(
            nodes.plan,
            inputs=["days", "registry", "params:dataset", "params:retraining"],
            outputs="plan",
            name=f"{experiment}.check_days",
        ),
        Node(
            nodes.make_wait(dataset, model),
            inputs=["days", "plan", *parameters],
            outputs="wait",
            name=f"{experiment}.choose_wait",
        ),
        Node(
            nodes.prepare,
            inputs=["days", "plan", "wait", "registry", "params:dataset", "params:retraining"],
            outputs=["data", "vocabularies", "rows"],
            name=f"{experiment}.prepare",
        ),
        Node(
            nodes.make_fit(dataset, model),
            inputs=["data", "rows", "plan", "registry", *parameters],
            outputs="fitted",
            name=f"{experiment}.fit",
        ),
        Node(
            nodes.make_judge(dataset, model),
            inputs=["fitted", "data", "rows", "plan", "registry", *parameters],
            outputs=["verdict_on_the_day", "calibration"],
            name=f"{experiment}.judge",
        ),
        Node(
            nodes.make_check_parity(dataset, model),
            inputs=[
                "verdict_on_the_day",
                "calibration",
                "fitted",
                "plan",
                "vocabularies",
                "rows",
                "served_requests",
                "days",
                "registry",
                "params:dataset",
                "params:retraining",
            ],
            outputs="verdict",
            name=f"{experiment}.check_parity",
        ),
        Node(
            nodes.make_register(dataset, model),
            inputs=[
                "fitted",
                "verdict",
                "calibration",
                "plan",
                "vocabularies",
                "rows",
                "registry",
                "params:retraining",
            ],
            outputs="version",
            name=f"{experiment}.register",
        ),
        Node(
            nodes.make_summarize(dataset, model),
            inputs=["plan", "fitted", "verdict", "version", "rows"],
            outputs=["run_summary", "run_page"],
            name=f"{experiment}.summarize",
        ),
        Node(
            nodes.conclude,
            inputs=["run_summary", "plan", "registry", "params:retraining"],
            outputs="deleted",
            name=f"{experiment}.conclude",
        ),
    ]
    return experiment_pipeline(
        steps,
        dataset,
        model,
        namespace=TAG,
        suffix=f".{TAG}",
        entries=dataset_entries(dataset, "days")
        | dataset_entries(experiment, "registry", "served_requests", "run_summary", "run_page"),
        tags=[TAG],
    )
