"""Wiring that pipelines share: catalog entries, parameters and namespaces of a dataset and of an experiment.

An experiment is a dataset with a model. Nodes use short names; these functions map them to the catalog:

==================  ====================================================
``params:dataset``  ``params:datasets.<dataset>``
``params:model``    ``params:models.<model>``
``params:<other>``  ``params:<other>``, shared by all datasets
``<name>``          ``<dataset>.<name>`` or ``<dataset>.<model>.<name>``
==================  ====================================================
"""

from collections.abc import Mapping, Sequence

from kedro.pipeline import Node, Pipeline

DATA = ("log", "features", "samples")
"""Inputs of nodes that read the data of a dataset."""
FIT_PARAMETERS = ("params:model", "params:dataset", "params:recipes", "params:training")
"""Inputs of nodes that fit a model."""


def dataset_entries(dataset: str, *names: str) -> dict[str, str]:
    """Return ``{name: catalog entry}`` of a dataset's entries."""
    return {name: f"{dataset}.{name}" for name in names}


def dataset_pipeline(
    nodes: Sequence[Node],
    dataset: str,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
) -> Pipeline:
    """Return the nodes as a pipeline in the namespace ``<dataset>``.

    Args:
        nodes: nodes with short names.
        dataset: key of the dataset.
        inputs: ``{name: catalog entry}`` of inputs that other pipelines write; all other names get the namespace.
        outputs: ``{name: catalog entry}`` of outputs without the namespace.
        tags: tags of the nodes in addition to the dataset.
    """
    return Pipeline(
        nodes,
        namespace=dataset,
        inputs=dict(inputs or {}),
        outputs=dict(outputs or {}),
        parameters=_parameter_mapping(nodes, dataset),
        tags=[dataset, *tags],
    )


def experiment_pipeline(
    nodes: Sequence[Node],
    dataset: str,
    model: str,
    *,
    suffix: str = "",
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
) -> Pipeline:
    """Return the nodes as a pipeline in the namespace ``<dataset>.<model><suffix>``.

    Args:
        nodes: nodes with short names.
        dataset: key of the dataset.
        model: key of the model.
        suffix: end of the namespace, for a variant or a stage of the experiment.
        inputs: ``{name: catalog entry}`` of inputs that other pipelines write; all other names get the namespace.
        outputs: ``{name: catalog entry}`` of outputs without the namespace.
        tags: tags of the nodes in addition to the dataset and the model.
    """
    return Pipeline(
        nodes,
        namespace=f"{dataset}.{model}{suffix}",
        inputs=dict(inputs or {}),
        outputs=dict(outputs or {}),
        parameters=_parameter_mapping(nodes, dataset, model),
        tags=[dataset, model, *tags],
    )


def _parameter_mapping(nodes: Sequence[Node], dataset: str, model: str | None = None) -> dict[str, str]:
    own = {"params:dataset": f"params:datasets.{dataset}", "params:model": f"params:models.{model}"}
    names = [name for node in nodes for name in node.inputs if name.startswith("params:")]
    return {name: own.get(name, name) for name in names}
