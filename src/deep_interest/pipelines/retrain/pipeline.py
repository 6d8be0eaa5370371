"""Seven nodes for each row that is kept fresh, in the namespace ``<dataset>.<model>.retrain``."""

from kedro.pipeline import Node, Pipeline

from deep_interest.pipelines.retrain import nodes

TAG = "retrain"
_SETTINGS = ["params:model", "params:dataset", "params:recipes", "params:training", "params:retraining"]


def create_pipeline(dataset: str, model: str) -> Pipeline:
    """The new days of ``dataset`` to a version of ``model``, and its promotion if the gate lets it pass.

    The last node alone confirms: days and champion change in one step.
    """
    steps = [
        Node(
            nodes.plan, inputs=["days", "registry", "params:dataset", "params:retraining"], outputs="plan", name="check_days",
        ),
        Node(
            nodes.prepare, inputs=["days", "plan", "registry", "params:dataset"], outputs=["data", "vocabularies"], name="prepare",
        ),
        Node(
            nodes.make_fit(dataset, model), inputs=["data", "plan", "registry", *_SETTINGS], outputs="fitted", name="fit",
        ),
        Node(
            nodes.make_judge(dataset, model), inputs=["fitted", "data", "plan", "registry", *_SETTINGS], outputs="verdict",
            name="judge",
        ),
        Node(
            nodes.make_register(dataset, model),
            inputs=["fitted", "verdict", "plan", "vocabularies", "registry", "params:retraining"], outputs="version",
            name="register",
        ),
        Node(
            nodes.make_summarize(dataset, model), inputs=["plan", "fitted", "verdict", "version"],
            outputs=["run_summary", "run_page"], name="summarize",
        ),
        Node(
            nodes.conclude, inputs=["run_summary", "plan", "registry", "params:retraining"], outputs="deleted", name="conclude",
        ),
    ]  # fmt: skip
    own = f"{dataset}.{model}"
    return Pipeline(
        steps,
        namespace=f"{own}.{TAG}",
        inputs={"days": f"{dataset}.days", "registry": f"{own}.registry"},
        outputs={"run_summary": f"{own}.run_summary", "run_page": f"{own}.run_page"},
        parameters={
            "params:model": f"params:models.{model}",
            "params:dataset": f"params:datasets.{dataset}",
            "params:recipes": "params:recipes",
            "params:training": "params:training",
            "params:retraining": "params:retraining",
        },
        tags=[dataset, model, TAG],
    )
