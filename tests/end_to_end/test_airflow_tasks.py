"""DAGs with one task per model, and per worker of a search: `kedro airflow create` with ``deploy/airflow_tasks.j2``."""

import shlex
import subprocess
import sys

import pandas as pd
import pytest
from support.airflow_standin import read_dag
from support.project import PROJECT, copy_project, environment, results, run

TEMPLATE = PROJECT / "deploy/airflow_tasks.j2"
MODELS = ["popularity", "lr", "base"]
KEDRO = f'#!/bin/sh\nexec {sys.executable} -m kedro "$@"\n'


def small_project(folder):
    """Copy the project with a table of three models, and a ``kedro`` where the tasks expect it."""
    project = copy_project(folder)
    smoke = project / "conf/smoke/parameters.yml"
    models = ", ".join(MODELS)
    smoke.write_text(
        smoke.read_text().replace("datasets:\n", f"datasets:\n  simulated: {{models: [{models}]}}\n")
    )
    kedro = project / ".venv/bin/kedro"
    kedro.parent.mkdir(parents=True)
    kedro.write_text(KEDRO)
    kedro.chmod(0o755)
    return project


def create(project, pipeline, *options):
    """Return the DAG that ``kedro airflow create`` makes of a pipeline."""
    command = [sys.executable, "-m", "kedro", "airflow", "create", f"--pipelines={pipeline}", f"--jinja-file={TEMPLATE}"]  # fmt: skip
    done = subprocess.run(
        [*command, *options], cwd=project, env=environment(), text=True, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = [file for file in (project / "airflow_dags").iterdir() if pipeline in file.name]
    return read_dag(file)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return small_project(tmp_path_factory.mktemp("airflow") / "project")


@pytest.mark.nightly
@pytest.mark.slow
def test_every_model_is_a_task_and_models_that_train_together_give_the_table_of_a_run(project, tmp_path):
    dag = create(project, "simulated", "--env=smoke", f"--params=project={project}")
    assert dag.dag_id == "deep_interest_simulated"
    assert dag.upstream == {
        **{model: {"samples"} for model in MODELS},
        "samples": set(),
        "report": set(MODELS),
    }

    def start(name):
        task = dag.tasks[name]
        assert task.cwd == str(project)
        return subprocess.Popen(["bash", "-c", task.bash_command], cwd=task.cwd, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    for level in (["samples"], MODELS, ["report"]):  # the models at the same time
        for process in [start(name) for name in level]:
            output, _ = process.communicate(timeout=300)
            assert process.returncode == 0, output
    whole = small_project(tmp_path / "whole")
    done = run(whole, "--pipelines=simulated")
    assert done.returncode == 0, done.stdout
    pd.testing.assert_frame_equal(results(project, "simulated"), results(whole, "simulated"))


@pytest.mark.slow
def test_every_worker_of_a_search_is_a_task_that_shares_the_study(project):
    storage = "postgresql://tuner@db.example.com/optuna"
    dag = create(project, "tune.simulated.din", f"--params=workers=3,storage={storage}")
    assert dag.upstream == {f"search_{number}": set() for number in (1, 2, 3)}
    for task in dag.tasks.values():
        _, *arguments = shlex.split(task.bash_command)
        assert arguments == ["run", "--pipelines=tune.simulated.din", f"--params=tuning.storage={storage}"]
        assert task.cwd == "/srv/deep-interest"


@pytest.mark.slow
def test_a_pipeline_without_models_is_one_task(project):
    dag = create(project, "samples.simulated", "--env=smoke")
    assert list(dag.tasks) == ["run"]
    assert "--env=smoke --nodes=" in dag.tasks["run"].bash_command
