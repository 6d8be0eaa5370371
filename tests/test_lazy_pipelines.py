"""The mapping of pipelines builds a pipeline only when it is accessed."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from kedro.framework.project import pipelines as kedro_pipelines
from kedro.framework.startup import bootstrap_project
from kedro.pipeline import Node, Pipeline

from deep_interest.errors import InputError
from deep_interest.pipeline_registry import LazyPipelines, register_pipelines


@pytest.fixture
def built() -> list[str]:
    return []


@pytest.fixture
def pipelines(built: list[str]) -> LazyPipelines:
    def factory(name: str) -> Pipeline:
        built.append(name)
        return Pipeline([Node(lambda x: x, inputs="x", outputs=name, name=name)])

    return LazyPipelines({name: lambda name=name: factory(name) for name in ("a", "b", "c")})


def test_an_accessed_pipeline_is_built_once(pipelines, built):
    assert pipelines["b"].outputs() == {"b"}
    assert pipelines["b"] is pipelines.get("b")
    assert built == ["b"]


def test_names_lengths_and_membership_build_nothing(pipelines, built):
    assert list(pipelines) == list(pipelines.keys()) == ["a", "b", "c"]
    assert len(pipelines) == 3
    assert "a" in pipelines
    assert "d" not in pipelines
    assert built == []


def test_get_returns_the_default_for_an_unknown_name(pipelines, built):
    assert pipelines.get("d") is None
    assert pipelines.get("d", 7) == 7
    with pytest.raises(KeyError, match="d"):
        pipelines["d"]
    assert built == []


def test_items_and_values_are_pipelines(pipelines, built):
    assert {name: pipeline.outputs() for name, pipeline in pipelines.items()} == {k: {k} for k in "abc"}
    assert [pipeline.outputs() for pipeline in pipelines.values()] == [{"a"}, {"b"}, {"c"}]
    assert built == ["a", "b", "c"]


def test_a_dict_of_the_mapping_has_pipelines(pipelines):
    # Kedro copies the registry with dict() when it lists pipelines
    assert {name: type(pipeline) for name, pipeline in dict(pipelines).items()} == dict.fromkeys(
        "abc", Pipeline
    )


@pytest.mark.slow
def test_the_registry_is_a_lazy_mapping():
    registry = register_pipelines()
    assert isinstance(registry, Mapping)
    assert isinstance(registry.get("simulated.din"), Pipeline)
    assert registry.get("simulated.unknown") is None
    assert ("simulated.din" in registry, "simulated.unknown" in registry) == (True, False)


def test_a_cleared_mapping_is_empty(pipelines):
    assert pipelines["a"] is not None
    pipelines.clear()
    assert dict(pipelines) == {}


def test_unlisted_pipelines_are_accessible_but_not_iterated_over(built):
    pipelines = LazyPipelines({name: lambda name=name: built.append(name) for name in "abc"}, listed="b")
    assert (list(pipelines), len(pipelines), "c" in pipelines) == (["b"], 1, True)
    assert list(pipelines.all_names()) == ["a", "b", "c"]
    assert built == []
    _ = pipelines["c"], dict(pipelines)
    assert built == ["c", "b"]


LISTED = {
    "{}", "ingest.{}", "samples.{}", "report.{}", "{}.din", "tune.{}.din", "tuned.{}.din",
}  # fmt: skip


@pytest.mark.slow
def test_the_registry_lists_at_most_ten_pipelines_per_dataset(monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_DATASETS", "simulated,amazon_toys")
    common = {"__default__", "simulate", "simulate_days", "backtest", "retrain", "score"}
    days = {"retrain.simulated.din", "score.simulated.din"}
    datasets = {name.format(dataset) for name in LISTED for dataset in ("simulated", "amazon_toys")}
    assert set(register_pipelines()) == common | days | datasets
    assert not {"simulated.dien", "dien_table4.simulated"} & set(register_pipelines())


@pytest.mark.slow
def test_a_variable_lists_further_pipelines(monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_DATASETS", "simulated")
    before = list(register_pipelines())
    monkeypatch.setenv("DEEP_INTEREST_PIPELINES", "simulated.dien, dien_table4.simulated,simulated")
    assert list(register_pipelines()) == [*before, "simulated.dien", "dien_table4.simulated"]
    monkeypatch.setenv("DEEP_INTEREST_PIPELINES", "simulated.dein")
    with pytest.raises(InputError, match=r"DEEP_INTEREST_PIPELINES: simulated\.dein is unknown"):
        register_pipelines()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simulated.dien", "dien_table4.simulated", "tune.amazon_toys.lr"])
def test_kedro_finds_pipelines_that_are_not_listed(name):
    bootstrap_project(Path(__file__).parents[1])
    kedro_pipelines.set_requested([name])
    assert name not in list(kedro_pipelines)
    assert name in kedro_pipelines
    assert kedro_pipelines[name] is kedro_pipelines.get(name)
    assert kedro_pipelines.get(f"{name}.unknown") is None
