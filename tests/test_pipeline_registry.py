"""Every registered pipeline agrees with the catalog and the parameters; no pipeline is run."""

from pathlib import Path

import pytest
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.validation import ParameterValidator

from deep_interest import pipeline_registry
from deep_interest.config import dataset_blocks
from deep_interest.errors import InputError
from deep_interest.experiments import ABLATIONS, ALL_MODELS, MODELS, RETRAINABLE, TUNABLE, datasets_of
from deep_interest.pipeline_registry import register_pipelines
from deep_interest.pipelines.wiring import owner_of

PROJECT = Path(__file__).parents[1]
DATASETS = datasets_of(dataset_blocks())
KINDS = {spec: dataset for dataset, spec in reversed(DATASETS.items())}
"""The first dataset of every kind; pipelines of the others differ from its own in names only."""


@pytest.fixture(scope="module", params=["base", "smoke", "industrial"])
def context(request):
    bootstrap_project(PROJECT)
    with KedroSession.create(PROJECT, env=request.param) as session:
        yield session.load_context()


@pytest.fixture(scope="module")
def pipelines():
    return register_pipelines()


@pytest.fixture(scope="module")
def all_kinds(pipelines):
    """The pipelines of one dataset of every kind, and those of no dataset, by name."""
    others = set(DATASETS) - set(KINDS.values())
    return {name: pipelines[name] for name in pipelines.all_names() if not others & set(name.split("."))}


def test_every_experiment_has_a_pipeline(pipelines):
    for dataset in DATASETS:
        expected = {
            dataset,
            f"ingest.{dataset}",
            f"samples.{dataset}",
            f"report.{dataset}",
            f"worth.{dataset}",
            *(f"{dataset}.{model}" for model in MODELS),
            *(f"{kind}.{dataset}.{model}" for kind in ("tune", "tuned", "worth") for model in TUNABLE),
            *(f"{table}.{dataset}" for table in ABLATIONS),
        }
        if DATASETS[dataset].impressions:
            expected |= {
                f"{kind}.{dataset}.{model}"
                for kind in ("retrain", "score", "parity")
                for model in RETRAINABLE
            } | {f"delayed_clicks.{dataset}"}
        assert expected <= set(pipelines.all_names())
    assert {"simulate", "simulate_days", "backtest"} <= set(pipelines)
    assert pipelines["__default__"].nodes == pipelines["simulated"].nodes
    for kind in ("retrain", "score"):
        assert pipelines[kind].nodes == pipelines[f"{kind}.simulated.din"].nodes


@pytest.mark.slow
def test_only_the_selected_datasets_are_registered(monkeypatch):
    monkeypatch.setenv("DEEP_INTEREST_DATASETS", "amazon_toys, simulated")
    selected = register_pipelines()
    assert {"amazon_toys", "tune.amazon_toys.din", "simulated.dien", "simulate"} <= set(selected.all_names())
    assert not any("amazon_beauty" in name for name in selected.all_names())
    assert selected["__default__"].nodes == selected["amazon_toys"].nodes
    assert selected["retrain"].nodes == selected["retrain.simulated.din"].nodes
    monkeypatch.setenv("DEEP_INTEREST_DATASETS", "amazon_toys")
    assert not {"retrain", "score"} & set(register_pipelines().all_names())
    monkeypatch.setenv("DEEP_INTEREST_DATASETS", "amazon_toy")
    with pytest.raises(
        InputError, match="amazon_toy is unknown; the datasets are simulated, simulated_actions, "
    ):
        register_pipelines()


@pytest.mark.slow
def test_every_dataset_of_every_pipeline_is_in_the_catalog(context, all_kinds):
    """In the base environment; the others have the same catalog files, so that one dataset is enough."""
    catalog = context.catalog
    prefix = "" if context.env == "base" else "simulated."
    resolver = catalog.config_resolver
    names = {
        name
        for pipeline in all_kinds.values()
        for name in pipeline.datasets()
        if not name.startswith("params:") and name.startswith(prefix)
    }
    missing = [
        name
        for name in names
        if name not in catalog
        and not resolver.match_dataset_pattern(name)
        and not name.endswith(".trained_models")  # in memory only
    ]
    assert len(names) > len(MODELS) * (1 if prefix else len(KINDS))
    assert missing == []


@pytest.mark.slow
def test_every_parameter_of_every_pipeline_is_configured_and_valid(context, pipelines, all_kinds):
    names = {
        name.removeprefix("params:")
        for pipeline in all_kinds.values()
        for name in pipeline.inputs()
        if name.startswith("params:")
    }
    raw = context.config_loader["parameters"]
    for name in names:
        block = raw
        for key in name.split("."):
            assert key in block, f"parameter {name} is not configured"
            block = block[key]
    every = all_kinds | {dataset: pipelines[dataset] for dataset in DATASETS}
    validated = ParameterValidator(every).validate_raw_params(raw)
    for dataset in DATASETS:
        assert validated["datasets"][dataset].recipe in validated["recipes"].root


@pytest.mark.slow
def test_only_raw_files_and_parameters_are_free_inputs(pipelines):
    free_inputs = {name for name in pipelines["__default__"].inputs() if not name.startswith("params:")}
    optional = {
        "tuned",
        "other_figures",
        "earlier_results",
        "leaderboard_results",
        "worth_results",
    }  # outputs of other pipelines, if they exist: one node each in Kedro-Viz
    assert free_inputs == {f"simulated.{name}" for name in optional}
    for dataset, row in DATASETS.items():
        outside = {
            name.split(".")[-1] for name in pipelines[dataset].inputs() if not name.startswith("params:")
        }
        raw = {"amazon": {"reviews", "metadata"}, "movielens": {"archive"}, "tables": {"raw_log"}}[row.source]
        assert outside - optional == (set() if row.simulated else raw)


@pytest.mark.slow
def test_a_search_reads_only_samples_without_the_test_set(pipelines):
    for dataset in KINDS.values():
        for model in TUNABLE:
            nodes = {node.name: set(node.inputs) for node in pipelines[f"tune.{dataset}.{model}"].nodes}
            assert f"{dataset}.tuning_samples" in nodes[f"tune.{dataset}.{model}.tune"]
            readers = {name for name, inputs in nodes.items() if f"{dataset}.samples" in inputs}
            assert readers == {f"tune.{dataset}.hide_test"}


@pytest.mark.slow
def test_every_configured_model_and_dataset_exists(context):
    parameters = context.config_loader["parameters"]
    assert set(parameters["models"]) == set(MODELS)
    assert set(parameters["datasets"]) == set(DATASETS)


@pytest.mark.slow
def test_the_industrial_dataset_has_dins_sixteen_feature_groups():
    bootstrap_project(PROJECT)
    with KedroSession.create(PROJECT, env="industrial") as session:
        features = session.load_context().config_loader["parameters"]["datasets"]["simulated"]["features"]
    behavior = features.get("behavior", features["item"])
    assert len([*features["item"], *behavior, *features["profile"], *features["context"]]) == 16


@pytest.mark.slow
def test_every_model_fits_every_recipe(context):
    from deep_interest.training.parameters import Recipes, RowOptions

    parameters = context.config_loader["parameters"]
    for recipe in Recipes(parameters["recipes"]).root.values():
        for model, options in parameters["models"].items():
            recipe.training_of(model, RowOptions(options), {})
            recipe.model_of(model, RowOptions(options))


@pytest.mark.slow
def test_the_industrial_recipe_has_the_papers_values(context):
    from deep_interest.training.parameters import Recipes, RowOptions

    parameters = context.config_loader["parameters"]
    recipe, row = (
        Recipes(parameters["recipes"]).root["paper_industrial"],
        RowOptions(parameters["models"]["din"]),
    )
    training, model = recipe.training_of("din", row, {}), recipe.model_of("din", row)
    assert (training.optimizer, training.batch_size) == ("adam", 5000)
    assert (training.learning_rate, training.decay_rate) == (0.001, 0.9)
    assert (model.embedding_dim, model.hidden) == (12, (200, 80))


def test_every_model_is_in_the_results_table_or_in_an_ablation():
    listed = {*DATASETS["simulated_long"].models, *DATASETS["simulated_actions"].models}
    models = {*ALL_MODELS.models, *listed, *(model for table in ABLATIONS.values() for model in table.models)}
    assert models == set(MODELS)
    assert not any(MODELS[model].on_request for model in ALL_MODELS.models)
    assert all(table.base in table.models for table in ABLATIONS.values())


@pytest.mark.slow
def test_smoke_runs_write_to_a_separate_folder():
    bootstrap_project(PROJECT)
    with KedroSession.create(PROJECT, env="smoke") as session:
        loader = session.load_context().config_loader
        written = [
            entry.get("filepath") or entry["path"]
            for name, entry in loader["catalog"].items()
            if not entry["type"].endswith(("RawFile", "MemoryDataset"))
        ]
        assert all(path.startswith("data/smoke/") for path in written)
        assert loader["parameters"]["training"]["workspace"].startswith("data/smoke/")


@pytest.mark.slow
def test_layers_have_the_names_of_the_data_folders(context):
    entries = [entry for entry in context.config_loader["catalog"].values() if "metadata" in entry]
    layers = [entry["metadata"]["kedro-viz"]["layer"] for entry in entries]
    assert set(layers) == {path.name for path in (PROJECT / "data").glob("0*")}
    for entry, layer in zip(entries, layers, strict=True):
        if layer != "01_raw":  # raw files may be in another folder
            path = entry.get("filepath") or entry["path"]
            root = context.config_loader["globals"]["data"]
            assert f"{root}/{layer}/" in path  # absolute once the catalog has been made


def test_user_only_needs_a_dataset_with_impressions(pipelines):
    outputs = {name: pipelines[name].all_outputs() for name in ("simulated", "amazon_toys")}
    assert "simulated.user_only.checkpoint" in outputs["simulated"]
    assert "amazon_toys.user_only.checkpoint" not in outputs["amazon_toys"]


@pytest.mark.slow
def test_a_dataset_with_selected_models_trains_and_plots_only_these(monkeypatch):
    blocks = dataset_blocks()
    blocks["simulated"] |= {"models": ["base", "din_softmax", "dien"]}
    monkeypatch.setattr(pipeline_registry, "_session_blocks", {"datasets": blocks})
    selected = register_pipelines()["simulated"]
    trained = {owner_of(node) for node in selected.nodes if node.name.endswith(".train")}
    assert trained == {("simulated", model) for model in ("base", "din_softmax", "dien")}
    figures = {name.removeprefix("simulated.") for name in selected.outputs() if name.endswith("_figure")}
    assert figures == set()  # each is on the page
    page = next(node for node in selected.nodes if node.name == "report.simulated.write_report")
    drawn = {name.split(".")[1].removesuffix("_figure") for name in page.inputs if name.endswith("_figure")}
    assert drawn == {
        "results", "attention", "embedding", "evolution", "seeds", "validation", "speed", "calibration", "groups", "ctr_by_day",
        "structure",
    }  # fmt: skip
    assert {"simulated.run", "simulated.playable_din"} <= set(page.inputs)
