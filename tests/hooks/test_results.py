"""The message at the end of a run, and the history that it appends to."""

import logging

import pandas as pd
import pytest
from kedro.io import DataCatalog
from kedro.pipeline import Node, Pipeline

from deep_interest.hooks.results import ResultsHooks


@pytest.fixture
def catalog(tmp_path):
    """Results, predictions and ids of the dataset ``shop``, in files."""
    csv = {"type": "pandas.CSVDataset"}
    catalog = DataCatalog.from_config(
        {
            "{dataset}.{model}.results": {**csv, "filepath": f"{tmp_path}/data/{{dataset}}/{{model}}/results.csv"},
            "{dataset}.results": {**csv, "filepath": f"{tmp_path}/data/{{dataset}}/results.csv"},
            "{dataset}.results_history": {**csv, "filepath": f"{tmp_path}/data/{{dataset}}/history.csv"},
            "{dataset}.{model}.predictions": {**csv, "filepath": f"{tmp_path}/data/{{dataset}}/{{model}}.csv"},
            "{dataset}.{kind}_ids": {**csv, "filepath": f"{tmp_path}/data/{{dataset}}/{{kind}}_ids.csv"},
            "{dataset}.report": {"type": "text.TextDataset", "filepath": "/elsewhere/{dataset}/report.html"},
            "{dataset}.{model}.tuned": {"type": "json.JSONDataset", "filepath": f"{tmp_path}/data/tuned.json"},
            "{dataset}.{model}.run_summary": {"type": "json.JSONDataset", "filepath": f"{tmp_path}/data/run.json"},
            "{dataset}.{model}.run_page": {"type": "text.TextDataset", "filepath": f"{tmp_path}/data/run.md"},
            "{dataset}.{model}.scores": {"type": "pandas.ParquetDataset", "filepath": f"{tmp_path}/data/s.parquet"},
        }
    )  # fmt: skip
    for model in ("din", "din_tuned", "base"):
        catalog.save(f"shop.{model}.predictions", pd.DataFrame({"user": [2], "item": [1], "seed_1": [0.5]}))
    catalog.save("shop.user_ids", pd.DataFrame({"id": ["ann", "bob"]}))
    catalog.save("shop.item_ids", pd.DataFrame({"id": [70, 71]}))
    return catalog


@pytest.fixture
def finish(catalog, tmp_path, caplog):
    """A function that ends a run with some outputs and returns its message."""

    def finish(*outputs, run="r1", env="smoke"):
        caplog.clear()
        pipeline = Pipeline([Node(lambda: None, None, list(outputs), name="all")])
        parameters = {"run_id": run, "env": env, "project_path": str(tmp_path)}
        with caplog.at_level(logging.INFO, logger="deep_interest"):
            ResultsHooks().after_pipeline_run(parameters, pipeline, catalog)
        # Other tests may have configured kedro's own logger, which reports each load and save.
        return "\n".join(
            record.getMessage() for record in caplog.records if record.name.startswith("deep_interest")
        )

    return finish


def table(din=0.7):
    names = {"base": 0.6, "din": din, "lr": 0.5, "fm": 0.51, "pnn": 0.52, "bst": 0.53, "oracle": 0.9}
    return pd.DataFrame(
        {
            "model": list(names), "name": [name.upper() for name in names], "gauc": list(names.values()),
            "difference": [None, din - 0.6, *[-0.1] * 5], "difference_low": [None, 0.05, *[-0.2] * 5],
            "difference_high": [None, 0.15, *[0.1] * 5],
        }
    )  # fmt: skip


def test_a_run_ends_with_its_best_models_the_files_and_the_next_commands(catalog, finish):
    catalog.save("shop.results", table())
    assert finish("shop.results", "shop.report") == (
        "Done.\n\n"
        "shop: all models, run r1\n"
        "  DIN   GAUC 0.7000  +0.1000 to BaseModel [+0.0500, +0.1500]\n"
        "  BASE  GAUC 0.6000\n"
        "  BST   GAUC 0.5300  -0.1000 to BaseModel [-0.2000, +0.1000]\n"
        "  PNN   GAUC 0.5200  -0.1000 to BaseModel [-0.2000, +0.1000]\n"
        "  FM    GAUC 0.5100  -0.1000 to BaseModel [-0.2000, +0.1000]\n"
        "  … and 1 more model\n"
        "\n"
        "  report:   /elsewhere/shop/report.html\n"
        "  table:    data/shop/results.csv\n"
        "  next:     deep-interest explain shop.din --user bob --candidate 70 --env=smoke\n"
        "            kedro run --pipelines=tune.shop.din --env=smoke\n"
    )


def test_next_commands_are_about_the_best_model_that_can_be_explained(catalog, finish):
    best = pd.DataFrame({"model": ["popularity"], "name": ["POPULARITY"], "gauc": [0.8]})
    catalog.save("shop.results", pd.concat([table(), best]))
    message = finish("shop.results")
    assert "run r1\n  POPULARITY  GAUC 0.8000\n" in message
    assert "next:     deep-interest explain shop.din --user bob" in message
    assert "kedro run --pipelines=tune.shop.din" in message


def test_a_later_run_names_the_models_whose_gauc_has_changed(catalog, finish):
    catalog.save("shop.results", table())
    finish("shop.results")
    catalog.save("shop.results", table(0.7125))
    assert "  GAUC since run r1: DIN 0.7000 → 0.7125 (+0.0125)\n" in finish("shop.results", run="r2")
    assert "            deep-interest results shop --env=smoke    # earlier runs\n" in finish(
        "shop.results", run="r2"
    )
    catalog.save("shop.results", table(0.71251))
    assert "  GAUC as in run r2\n" in finish("shop.results", run="r3")
    assert list(dict.fromkeys(catalog.load("shop.results_history")["run"])) == ["r1", "r2", "r3"]


def test_a_run_that_is_repeated_does_not_enter_the_history_again(catalog, finish):
    catalog.save("shop.results", table())
    finish("shop.results")
    assert "  GAUC as in run r1\n" in finish("shop.results", run="r2")
    assert list(dict.fromkeys(catalog.load("shop.results_history")["run"])) == ["r1"]


def test_the_run_of_one_model_leads_to_the_table_of_all(catalog, finish):
    catalog.save("shop.din.results", table()[1:2])
    message = finish("shop.din.results", env=None)
    assert "shop.din, run r1\n  DIN  GAUC 0.7000" in message
    assert "next:     kedro run --pipelines=shop    # all models of the table\n" in message
    assert "--env" not in message


def test_the_difference_of_a_tuned_model_is_that_to_the_untuned_one(catalog, finish):
    tuned = table()[1:3].assign(
        model=["din_tuned", "din"], name=["DIN, tuned", "DIN"], difference=[0.01, None]
    )
    catalog.save("shop.din_tuned.results", tuned)
    assert "  DIN, tuned  GAUC 0.7000  +0.0100 to DIN [+0.0500, +0.1500]\n" in finish(
        "shop.din_tuned.results"
    )


def test_ids_in_a_command_are_quoted_for_the_shell(catalog, finish):
    catalog.save("shop.user_ids", pd.DataFrame({"id": ["7|1001", "8|1001"]}))
    catalog.save("shop.results", table())
    assert "--user '8|1001' --candidate 70 --env=smoke\n" in finish("shop.results")


def test_tuning_scoring_and_retraining_say_where_their_results_are(catalog, finish, tmp_path):
    catalog.save(
        "shop.din.tuned", {"finished": 12, "validation_gauc": 0.71, "values": {"training.mba": 0.0123}}
    )
    message = finish("shop.din.tuned")
    assert "shop.din: best of 12 trials, validation GAUC 0.7100 with training.mba 0.0123" in message
    assert "values:   data/tuned.json\n" in message
    assert "next:     kedro run --pipelines=tuned.shop.din --env=smoke" in message
    message = finish("shop.din.scores", env=None)
    assert "scores:   data/s.parquet\n" in message
    assert "pandas.read_parquet('data/s.parquet')" in message
    catalog.save("shop.din.run_summary", {"outcome": "promoted", "version": "v7"})
    message = finish("shop.din.run_summary", "shop.din.run_page", env=None)
    assert "shop.din: v7 promoted\n\n  summary:  data/run.md\n" in message
    assert "next:     kedro run --pipelines=score.shop.din\n" in message


def test_a_refused_version_is_reported_with_the_failed_checks(catalog, finish):
    checks = [
        {"name": "coverage", "found": 0.9, "expected": "at least 0.02", "passed": True},
        {"name": "GAUC gain, lower end", "found": -0.0123456, "expected": "above 0", "passed": False},
        {"name": "calibration", "found": None, "expected": "0.7 to 1.4", "passed": False},
    ]
    refused = {"outcome": "refused", "version": "v8", "champion_before": None, "checks": checks}
    catalog.save("shop.din.run_summary", refused)
    message = finish("shop.din.run_summary", env=None)
    assert (
        "v8 refused\n  GAUC gain, lower end: -0.0123, expected above 0\n  calibration: undefined, expected 0.7 to 1.4\n"
        in message
    )
    assert "score." not in message  # no version serves
    assert "deep-interest registry promote shop.din v8    # regardless of the checks\n" in message
    catalog.save("shop.din.run_summary", refused | {"champion_before": "v7"})
    assert "next:     kedro run --pipelines=score.shop.din\n" in finish("shop.din.run_summary", env=None)


def test_simulated_days_lead_to_retraining(finish):
    assert "next:     kedro run --pipelines=retrain.shop.din\n" in finish("shop.days", env=None)


def test_a_summary_that_fails_does_not_fail_the_run(finish):
    assert "The results are complete, but their summary could not be made" in finish("shop.results")
    assert finish("shop.samples") == ""
