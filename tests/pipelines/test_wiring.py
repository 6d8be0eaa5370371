"""Names of nodes' inputs and outputs in the catalog."""

import pytest
from kedro.pipeline import Node

from deep_interest.pipelines.wiring import (
    dataset_entries,
    dataset_pipeline,
    experiment_pipeline,
    family_namespace,
    model_namespace,
    owner_of,
)


def fit(samples, model, dataset, recipes):
    """Return the arguments; only the wiring of this node is tested."""
    return samples, model, dataset, recipes


NODE = Node(
    fit,
    inputs=["samples", "params:model", "params:dataset", "params:recipes"],
    outputs=["checkpoint", "summary"],
    name="shop.fit",
)


def test_an_experiment_has_its_entries_parameters_and_tags():
    pipeline = experiment_pipeline(
        [NODE],
        "shop",
        "din",
        namespace="retrain",
        suffix=".retrain",
        entries={"samples": "shop.samples", "summary": "shop.din.summary"},
        tags=["retrain"],
    )
    (node,) = pipeline.nodes
    assert node.inputs == ["shop.samples", "params:models.din", "params:datasets.shop", "params:recipes"]
    assert node.outputs == ["shop.din.retrain.checkpoint", "shop.din.summary"]
    assert node.name == "retrain.shop.fit"
    assert node.tags == {"shop", "din", "retrain"}


@pytest.mark.parametrize("namespace", [None, "samples"])
def test_a_dataset_has_its_entries_parameters_and_tags(namespace):
    first = Node(lambda x, dataset: x, inputs=["items", "params:dataset"], outputs="ids", name="shop.number")
    second = Node(lambda x: x, inputs="ids", outputs="samples", name="shop.make")
    nodes = dataset_pipeline([first, second], "shop", namespace=namespace, tags=["samples"]).nodes
    assert [node.inputs for node in nodes] == [["shop.items", "params:datasets.shop"], ["shop.ids"]]
    assert [node.outputs for node in nodes] == [["shop.ids"], ["shop.samples"]]
    prefix = f"{namespace}." if namespace else ""
    assert [node.name for node in nodes] == [f"{prefix}shop.number", f"{prefix}shop.make"]
    assert nodes[0].tags == {"shop", "samples"}


@pytest.mark.parametrize(
    ("output", "owner"),
    [
        ("shop.samples", ("shop", None)),
        ("shop.din.checkpoint", ("shop", "din")),
        ("shop.din_tuned.checkpoint", ("shop", "din")),
        ("shop.din.retrain.plan", ("shop", "din")),
        ("shop.din_table4.results", ("shop", None)),
        ("din.samples", ("din", None)),  # a dataset of this name
        ("plain", ("plain", None)),
    ],
)
def test_the_owner_of_a_node_is_in_the_names_of_its_outputs(output, owner):
    assert owner_of(Node(lambda x: x, inputs="x", outputs=output, namespace="models.attention")) == owner


def test_a_node_without_outputs_belongs_to_the_dataset_that_it_reads():
    node = Node(lambda log, samples: None, inputs=["shop.log", "shop.samples"], outputs=None)
    assert owner_of(node) == ("shop", None)


def test_models_are_in_the_namespace_of_their_family():
    assert family_namespace("din_tuned") == "models.attention"
    assert model_namespace("din_tuned") == "models.attention.din_tuned"
    assert model_namespace("dien") == "models.recurrent.dien"


@pytest.mark.parametrize("names", [(), ("log",), ("log", "samples")])
def test_dataset_entries_have_the_name_of_the_dataset(names):
    assert dataset_entries("shop", *names) == {name: f"shop.{name}" for name in names}
