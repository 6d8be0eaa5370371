"""The pipeline graph of a dataset as Kedro-Viz shows it: stages first, then families of models, then models."""

import copy
import warnings

import pandas as pd
import pytest

from deep_interest.models.registry import MODELS
from deep_interest.pipeline_registry import register_pipelines
from deep_interest.pipelines.trained import TrainedModels, make_collect, make_merge

FAMILIES = {"simple", "pooled", "attention", "recurrent", "transformer"}


@pytest.fixture(scope="module")
def pipelines():
    return register_pipelines()


def namespaces(pipeline, depth):
    spaces = {node.namespace for node in pipeline.nodes if node.namespace}
    return {".".join(space.split(".")[:depth]) for space in spaces if len(space.split(".")) >= depth}


def between_boxes(pipeline, depth):
    """Return the entries that nodes of one box of the collapsed graph write and nodes outside of it read."""
    box = {node: ".".join((node.namespace or node.name).split(".")[:depth]) for node in pipeline.nodes}
    written = {name: box[node] for node in pipeline.nodes for name in node.outputs}
    return {
        name for node in pipeline.nodes for name in node.inputs if written.get(name, box[node]) != box[node]
    }


@pytest.mark.parametrize("dataset", ["simulated", "amazon_toys", "kuairand"])
def test_the_collapsed_graph_of_a_dataset_has_five_stages(pipelines, dataset):
    pipeline = pipelines[dataset]
    assert namespaces(pipeline, 1) == {"ingest", "samples", "models", "compare", "report"}
    assert namespaces(pipeline, 2) == {f"models.{family}" for family in FAMILIES}
    stages = ["ingest", "samples", "models", "compare", "report"]
    stage_of = {node: stages.index(node.namespace.split(".")[0]) for node in pipeline.nodes if node.namespace}
    written = {name: stage for node, stage in stage_of.items() for name in node.outputs}
    for node, stage in stage_of.items():
        assert all(written.get(name, 0) <= stage for name in node.inputs), node.name


def test_little_more_than_the_trained_models_leaves_the_models(pipelines):
    pipeline = pipelines["simulated"]
    models = pipeline.only_nodes_with_namespaces(["models"])
    read_outside = models.all_outputs() & (pipeline - models).inputs()
    assert {name.removeprefix("simulated.") for name in read_outside} == {
        "trained_models", "model_settings", "din.checkpoint", "din_dice.checkpoint", "din_softmax.checkpoint",
        "gru_augru.checkpoint", "dien.checkpoint", "gru_augru.learning_curves", "dien.learning_curves",
    }  # fmt: skip
    assert len(between_boxes(pipeline, 1)) < 30
    assert len(between_boxes(models, 2)) < 15


def test_every_output_of_a_model_is_used(pipelines):
    assert pipelines["simulated"].outputs() == {
        f"simulated.{name}" for name in ("report", "results_page", "structure")
    }


def test_every_family_has_a_model_and_a_namespace():
    assert {spec.family for spec in MODELS.values() if not spec.on_request} == FAMILIES
    on_request = {spec.family for spec in MODELS.values() if spec.on_request}
    assert on_request == {"long", "pooled", "attention", "recurrent"}


@pytest.mark.slow
def test_building_all_pipelines_warns_about_nothing(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = register_pipelines()
        for pipeline in map(
            names.__getitem__, ["amazon_beauty", "din_table5.simulated", "tuned.simulated.din"]
        ):
            assert pipeline.group_nodes_by("namespace")


def test_a_run_of_several_datasets_and_models_has_unique_names(pipelines):
    names = (
        "simulated",
        "amazon_toys",
        "simulated.din",
        "amazon_toys.dien",
        "din_table5.simulated",
        "tune.simulated.lr",
    )
    total = sum((pipelines[name] for name in names[1:]), pipelines[names[0]])
    assert {f"models.attention.din.{dataset}.train" for dataset in ("simulated", "amazon_toys")} <= {
        node.name for node in total.nodes
    }
    family = total.only_nodes_with_namespaces(["models.attention.din"])
    assert len(family.nodes) == 4  # train and predict on both datasets


def test_options_of_kedro_run_select_meaningful_parts(pipelines):
    pipeline = pipelines["simulated"]
    report = pipeline.filter(node_namespaces=["report"])
    memory = {name for name in report.inputs() if name.endswith("trained_models")}
    assert memory == set()  # all of its inputs are files
    attention = pipeline.filter(node_namespaces=["models.attention"], tags=["din"])
    assert {node.short_name for node in attention.nodes} == {"simulated.train", "simulated.predict"}
    samples = pipeline.filter(to_outputs=["simulated.samples"])
    assert samples.all_outputs() >= {"simulated.raw_log", "simulated.behaviors", "simulated.samples"}
    assert not samples.only_nodes_with_tags("report").nodes
    rest = pipeline.filter(from_nodes=["models.attention.din.simulated.train"])
    assert "simulated.report" in rest.outputs()
    assert "simulated.dien.checkpoint" not in rest.all_outputs()


def test_families_are_merged_in_the_order_of_the_table():
    def outputs(model):
        return {
            f"{model}_predictions": pd.DataFrame(),
            f"{model}_curves": None,
            f"{model}_settings": {"key": model},
        }

    attention = make_collect(["din", "din_dice"])(**outputs("din"), **outputs("din_dice"))
    simple = make_collect(["lr"])(**outputs("lr"))
    merged = make_merge(["din", "lr", "din_dice"])(attention=attention, simple=simple)
    assert [(key, model.settings) for key, model in merged.items()] == [
        (key, {"key": key}) for key in ("din", "lr", "din_dice")
    ]


def test_trained_models_are_shared_by_all_readers():
    models = TrainedModels({})
    assert copy.deepcopy(models) is models
