"""Two nodes per experiment, in the namespace ``<dataset>.<model>``: training and prediction."""

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import TUNED_SUFFIX
from deep_interest.pipelines.train.nodes import make_train, predict
from deep_interest.pipelines.wiring import DATA, FIT_PARAMETERS, dataset_entries, experiment_pipeline


def create_pipeline(dataset: str, model: str, *, tuned: bool = False) -> Pipeline:
    """Return the pipeline from the samples of ``dataset`` to the test predictions of ``model``.

    Args:
        dataset: key of the dataset.
        model: key of the model.
        tuned: whether to train with the tuned values of the model, as a separate model variant.
    """
    nodes = [
        Node(
            make_train(dataset, model, tuned=tuned),
            inputs=[*DATA, *FIT_PARAMETERS, "tuned"],
            outputs=["checkpoint", "learning_curves", "settings"],
            name="train",
        ),
        Node(
            predict,
            inputs=["checkpoint", *DATA, "params:training"],
            outputs="predictions",
            name="predict",
        ),
    ]
    tuned_values = f"{dataset}.{model}.tuned" if tuned else f"{dataset}.tuned"
    return experiment_pipeline(
        nodes,
        dataset,
        model,
        suffix=TUNED_SUFFIX if tuned else "",
        inputs={"tuned": tuned_values, **dataset_entries(dataset, *DATA)},
    )
