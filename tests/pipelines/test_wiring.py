"""Names of nodes' inputs and outputs in the catalog."""

import pytest
from kedro.pipeline import Node

from deep_interest.pipelines.wiring import dataset_entries, dataset_pipeline, experiment_pipeline


def fit(samples, model, dataset, recipes):
    """Return the arguments; only the wiring of this node is tested."""
    return samples, model, dataset, recipes


NODE = Node(
    fit,
    inputs=["samples", "params:model", "params:dataset", "params:recipes"],
    outputs=["checkpoint", "summary"],
    name="fit",
)


def test_an_experiment_has_its_namespace_parameters_and_tags():
    pipeline = experiment_pipeline(
        [NODE],
        "shop",
        "din",
        suffix=".retrain",
        inputs=dataset_entries("shop", "samples"),
        outputs={"summary": "shop.din.summary"},
        tags=["retrain"],
    )
    (node,) = pipeline.nodes
    assert node.inputs == ["shop.samples", "params:models.din", "params:datasets.shop", "params:recipes"]
    assert node.outputs == ["shop.din.retrain.checkpoint", "shop.din.summary"]
    assert node.name == "shop.din.retrain.fit"
    assert node.tags == {"shop", "din", "retrain"}


def test_a_dataset_has_its_namespace_parameters_and_tags():
    node = Node(
        lambda items, dataset: items, inputs=["items", "params:dataset"], outputs="samples", name="make"
    )
    (node,) = dataset_pipeline([node], "shop", tags=["samples"]).nodes
    assert node.inputs == ["shop.items", "params:datasets.shop"]
    assert node.outputs == ["shop.samples"]
    assert node.name == "shop.make"
    assert node.tags == {"shop", "samples"}


@pytest.mark.parametrize("names", [(), ("log",), ("log", "samples")])
def test_dataset_entries_have_the_name_of_the_dataset(names):
    assert dataset_entries("shop", *names) == {name: f"shop.{name}" for name in names}
