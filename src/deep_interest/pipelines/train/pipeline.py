"""Training and prediction, in the namespace ``models.<family>.<model>``, and the collection of trained models."""

from collections.abc import Sequence

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import LEADERBOARD, LEADERBOARD_SUFFIX, TUNED_SUFFIX, model_spec
from deep_interest.pipelines.train.nodes import make_train, predict
from deep_interest.pipelines.trained import list_settings, make_collect, make_merge
from deep_interest.pipelines.wiring import (
    DATA,
    FIT_PARAMETERS,
    dataset_entries,
    experiment_pipeline,
    family_namespace,
    model_namespace,
)


def create_pipeline(dataset: str, model: str, *, variant: str = "") -> Pipeline:
    """Return the pipeline from the samples of ``dataset`` to the test predictions of ``model``.

    Args:
        dataset: key of the dataset.
        model: key of the model.
        variant: suffix of a separate model variant: ``_tuned`` is trained with the tuned values of the model, ``_leaderboard`` with those
            of the leaderboard.
    """
    tuned = {TUNED_SUFFIX: f"{dataset}.{model}.tuned", LEADERBOARD_SUFFIX: f"{dataset}.{LEADERBOARD}.tuned"}
    seeds = [f"params:{LEADERBOARD}"] if variant == LEADERBOARD_SUFFIX else []
    nodes = [
        Node(
            make_train(dataset, model, variant=variant),
            inputs=[*DATA, *FIT_PARAMETERS, "tuned", *seeds],
            outputs=["checkpoint", "learning_curves", "settings"],
            name=f"{dataset}.train",
        ),
        Node(
            predict,
            inputs=["checkpoint", *DATA, "params:training"],
            outputs="predictions",
            name=f"{dataset}.predict",
        ),
    ]
    return experiment_pipeline(
        nodes,
        dataset,
        model,
        namespace=model_namespace(f"{model}{variant}"),
        suffix=variant,
        entries={"tuned": tuned.get(variant, f"{dataset}.tuned"), **dataset_entries(dataset, *DATA)},
    )


def create_collection(dataset: str, models: Sequence[str], prefix: str) -> Pipeline:
    """Return the pipeline that collects trained models as ``<prefix>.trained_models``, family by family.

    Args:
        dataset: key of the dataset.
        models: keys of the models, in the order of their table.
        prefix: name of the table: that of the dataset, or that of another table of the dataset.
    """
    families: dict[str, list[str]] = {}
    for model in models:
        families.setdefault(model_spec(model).family, []).append(model)
    collected = f"{prefix}.trained_models"
    if len(families) == 1:
        return Pipeline([_collect(dataset, models, prefix, collected)])
    by_family = {family: f"{prefix}.{family}.trained_models" for family in families}
    collections = [
        _collect(dataset, members, prefix, by_family[family]) for family, members in families.items()
    ]
    merge = Node(make_merge(models), by_family, collected, name=f"{prefix}.merge", namespace="models")
    return Pipeline([*collections, merge])


def create_settings(dataset: str) -> Pipeline:
    """Return the pipeline from the trained models of ``dataset`` to the settings of all of them."""
    inputs, output = f"{dataset}.trained_models", f"{dataset}.model_settings"
    return Pipeline(
        [Node(list_settings, inputs, output, name=f"{dataset}.list_settings", namespace="models")]
    )


def _collect(dataset: str, models: Sequence[str], prefix: str, output: str) -> Node:
    kinds = {"predictions": "predictions", "curves": "learning_curves", "settings": "settings"}
    inputs = {
        f"{model}_{kind}": f"{dataset}.{model}.{entry}" for model in models for kind, entry in kinds.items()
    }
    namespace = family_namespace(models[0])
    return Node(make_collect(models), inputs, output, name=f"{prefix}.collect", namespace=namespace)
