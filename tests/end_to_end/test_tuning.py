"""Hyperparameter search, training with its values and the comparison, by commands."""

import json
from wsgiref.util import setup_testing_defaults

import pandas as pd
import pytest
from support.forked import run
from support.project import copy_project

USE_TUNED = ["--params=training.tuned=true,training.seeds=[1]"]


@pytest.mark.nightly
def test_tuned_values_are_used_in_training_and_compared(tmp_path):
    project = copy_project(tmp_path / "project")
    data = project / "data/smoke"
    missing = run(project, "--pipelines=simulated.din_mba", *USE_TUNED)
    assert missing.returncode != 0
    assert "find them with `kedro run --pipelines=tune.simulated.din_mba --env=smoke`" in missing.stdout
    assert "Traceback" not in missing.stdout
    assert not data.exists()  # before any work
    search = run(project, "--pipelines=tune.simulated.din_mba")
    assert search.returncode == 0, search.stdout
    tuned = json.loads((data / "06_models/simulated/din_mba/tuned.json").read_text())
    trials = pd.read_csv(data / "08_reporting/simulated/din_mba/trials.csv")
    assert tuned["finished"] == len(trials) == 4
    assert tuned["validation_gauc"] == trials["validation_gauc"].max()
    reporting = data / "08_reporting/simulated/din_mba"
    assert {"tuning.json", "tuning.png"} <= {path.name for path in reporting.iterdir()}
    assert trials_in_dashboard(data / "06_models/simulated/din_mba/tuning/study.db") == 4
    minimum_users = "evaluation.minimum_users=20"  # of 38
    compared = run(
        project, "--pipelines=tuned.simulated.din_mba", f"--params=training.seeds=[1],{minimum_users}"
    )
    assert compared.returncode == 0, compared.stdout
    results = pd.read_csv(data / "08_reporting/simulated/din_mba_tuned/results.csv").set_index("model")
    assert list(results.index[:2]) == ["din_mba", "din_mba_tuned"]
    assert pd.notna(results.loc["din_mba_tuned", "difference_low"])
    settings = json.loads((data / "07_model_output/simulated/din_mba_tuned/settings.json").read_text())
    assert settings["tuned"] == tuned["values"]
    assert settings["training"]["mba"] == tuned["values"]["training.mba"]
    untuned = json.loads((data / "07_model_output/simulated/din_mba/settings.json").read_text())
    assert untuned["tuned"] == {}
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with_tuned_values = run(
        project, "--pipelines=simulated.din_mba", f"{USE_TUNED[0]},training.mlflow_uri={uri}"
    )
    assert with_tuned_values.returncode == 0, with_tuned_values.stdout
    assert_in_mlflow(uri, "simulated", "din_mba", data, settings)
    path = "07_model_output/simulated/{}/predictions.parquet"
    pd.testing.assert_frame_equal(
        pd.read_parquet(data / path.format("din_mba")), pd.read_parquet(data / path.format("din_mba_tuned"))
    )


def trials_in_dashboard(study):
    """Return the number of trials that optuna-dashboard shows."""
    import optuna_dashboard

    app = optuna_dashboard.wsgi(f"sqlite:///{study}")

    def get(path):
        request = {"PATH_INFO": path}
        setup_testing_defaults(request)
        return json.loads(b"".join(app(request, lambda *_: None)))

    (summary,) = get("/api/studies")["study_summaries"]
    assert summary["study_name"] == "simulated.din_mba"
    return len(get(f"/api/studies/{summary['study_id']}")["trials"])


def assert_in_mlflow(uri, dataset, model, data, settings):
    """MLflow has the options, the learning curve and the metrics of the model."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    (mlflow_run,) = client.search_runs([client.get_experiment_by_name(dataset).experiment_id])
    assert (mlflow_run.info.run_name, mlflow_run.info.status) == (model, "FINISHED")
    assert mlflow_run.data.params["training.mba"] == str(settings["training"]["mba"])
    table = pd.read_csv(data / f"08_reporting/{dataset}/{model}/results.csv").set_index("model")
    assert mlflow_run.data.metrics["gauc"] == pytest.approx(table.loc[model, "gauc"], abs=1e-12)
    curves = pd.read_csv(data / f"07_model_output/{dataset}/{model}/learning_curves.csv")
    history = client.get_metric_history(mlflow_run.info.run_id, "curve.validation_gauc")
    assert [point.value for point in history] == pytest.approx(curves["validation_gauc"].tolist())


def test_an_unknown_option_stops_the_run_before_it_starts(tmp_path):
    project = copy_project(tmp_path / "project")
    (project / "conf/local").mkdir(exist_ok=True)
    parameters = project / "conf/smoke/parameters.yml"
    for addition, message in (
        ("  ranges: {training: {lamda: {low: 0, high: 1}}}\n", "training.lamda is not a training option"),
        ("  rows: {din: [model.aux_weight]}\n", "model.aux_weight is not an option of din"),
    ):
        original = parameters.read_text()
        parameters.write_text(
            original.replace("tuning: {n_trials: 4}\n", f"tuning:\n  n_trials: 4\n{addition}")
        )
        failed = run(project, "--pipelines=tune.simulated.din")
        assert failed.returncode != 0
        assert message in failed.stdout
        assert "Traceback" not in failed.stdout
        assert not (project / "data/smoke").exists()
        parameters.write_text(original)
