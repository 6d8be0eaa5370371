"""Wiring that pipelines share: catalog entries, parameters and namespaces of a dataset and of an experiment.

An experiment is a dataset with a model. Nodes use short names; these functions map them to the catalog:

==================  ====================================================
``params:dataset``  ``params:datasets.<dataset>``
``params:model``    ``params:models.<model>``
``params:<other>``  ``params:<other>``, shared by all datasets
``<name>``          ``<dataset>.<name>`` or ``<dataset>.<model>.<name>``
==================  ====================================================

Namespaces are the stages of a run, the same for every dataset, so that the collapsed graph of Kedro-Viz reads from
logs to table: ``ingest``, ``samples``, ``models.<family>.<model>``, ``compare`` and ``report``, besides ``tune``,
``retrain`` and ``backtest``. Names of catalog entries are independent of them. Node names start with the dataset, so
that they are unique in a run of several datasets: ``models.attention.din.simulated.train``.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kedro.pipeline import Node, Pipeline

from deep_interest.experiments import MODELS, model_spec, without_variant

DATA = ("log", "features", "samples")
"""Inputs of nodes that read the data of a dataset."""
FIT_PARAMETERS = ("params:model", "params:dataset", "params:recipes", "params:training")
"""Inputs of nodes that fit a model."""


class Owner(NamedTuple):
    """Dataset and model that a node works for.

    Attributes:
        dataset: key of the dataset.
        model: key of the model, without the suffix of a variant; None if the node is not of a single experiment.
    """

    dataset: str
    model: str | None


def owner_of(node: Node) -> Owner:
    """Return the dataset and the model of a node, from the names of its outputs: ``<dataset>.<name>`` or
    ``<dataset>.<model>.<name>``."""  # fmt: skip
    dataset, *rest = (node.outputs or node.inputs or [""])[0].split(".")
    model = without_variant(rest[0]) if len(rest) > 1 else None
    return Owner(dataset, model if model in MODELS else None)


def family_namespace(model: str) -> str:
    """Return the namespace of the models of a family, that of ``model``, which may be a tuned variant."""
    return f"models.{model_spec(model).family}"


def model_namespace(model: str) -> str:
    """Return the namespace of a model, which may be a tuned variant."""
    return f"{family_namespace(model)}.{model}"


def dataset_entries(dataset: str, *names: str) -> dict[str, str]:
    """Return ``{name: catalog entry}`` of a dataset's entries."""
    return {name: f"{dataset}.{name}" for name in names}


def dataset_pipeline(
    nodes: Sequence[Node], dataset: str, *, namespace: str | None = None, tags: Sequence[str] = ()
) -> Pipeline:
    """Return the nodes as a pipeline whose inputs and outputs are entries of a dataset.

    Args:
        nodes: nodes with short names of inputs and outputs.
        dataset: key of the dataset.
        namespace: stage of the nodes.
        tags: tags of the nodes in addition to the dataset.
    """
    return _mapped(nodes, dataset, namespace, {}, _parameter_mapping(nodes, dataset), [dataset, *tags])


def experiment_pipeline(
    nodes: Sequence[Node],
    dataset: str,
    model: str,
    *,
    namespace: str | None = None,
    suffix: str = "",
    entries: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
) -> Pipeline:
    """Return the nodes as a pipeline whose inputs and outputs are entries of an experiment.

    Args:
        nodes: nodes with short names of inputs and outputs.
        dataset: key of the dataset.
        model: key of the model.
        namespace: stage of the nodes.
        suffix: end of the experiment's name in entries, for a variant or a stage of the experiment.
        entries: ``{name: catalog entry}`` of inputs and outputs that are not ``<dataset>.<model><suffix>.<name>``.
        tags: tags of the nodes in addition to the dataset and the model.
    """
    parameters = _parameter_mapping(nodes, dataset, model)
    prefix = f"{dataset}.{model}{suffix}"
    return _mapped(nodes, prefix, namespace, entries or {}, parameters, [dataset, model, *tags])


def _mapped(
    nodes: Sequence[Node], prefix: str, namespace: str | None, entries: Mapping[str, str], parameters: dict[str, str], tags: Sequence[str],
) -> Pipeline:  # fmt: skip
    outputs = {name for node in nodes for name in node.outputs}
    inputs = {name for node in nodes for name in node.inputs} - outputs - parameters.keys()
    return Pipeline(
        nodes,
        namespace=namespace,
        inputs={name: entries.get(name, f"{prefix}.{name}") for name in inputs},
        outputs={name: entries.get(name, f"{prefix}.{name}") for name in outputs},
        parameters=parameters,
        tags=list(tags),
    )


def _parameter_mapping(nodes: Sequence[Node], dataset: str, model: str | None = None) -> dict[str, str]:
    own = {"params:dataset": f"params:datasets.{dataset}", "params:model": f"params:models.{model}"}
    names = [name for node in nodes for name in node.inputs if name.startswith("params:")]
    return {name: own.get(name, name) for name in names}
