"""Kedro's own tools work in this project: packages, Airflow DAGs, IPython and the commands of the catalog."""

import json
import subprocess
import sys
import zipfile

import pandas as pd
import pytest
import yaml
from support.project import PROJECT, copy_project, environment, results, run

MODEL = "simulated.popularity"
CSV = "data/smoke/08_reporting/simulated/popularity/results.csv"
SHELL = f"""
get_ipython().run_line_magic("load_ext", "kedro.ipython")
get_ipython().run_line_magic("reload_kedro", "--env=smoke")
import json
table = catalog.load("{MODEL}.results")
print(json.dumps([context.env, len(pipelines["{MODEL}"].nodes), table["model"].tolist(), session.store["env"]]))
"""
# A substitute for Airflow, which is not installed: tasks run one after the other in the order of the dependencies.
AIRFLOW = '''
"""Runs the tasks of a DAG as soon as all tasks before them have run."""
class Task:
    def __init__(self, function):
        self.function, self.before = function, []
        TASKS.append(self)
    def __rshift__(self, other):
        other.before.append(self)
TASKS = []
def task(task_id):
    return lambda function: lambda: Task(function)
def dag(**options):
    def decorate(function):
        def run():
            function()
            done = []
            while len(done) < len(TASKS):
                ready = [task for task in TASKS if task not in done and all(first in done for first in task.before)]
                ready[0].function()
                done.append(ready[0])
        return run
    return decorate
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Copy of the project after a run of one model that trains in no time."""
    project = copy_project(tmp_path_factory.mktemp("tools") / "project", code=True)
    done = run(project, f"--pipelines={MODEL}")
    assert done.returncode == 0, done.stdout
    return project


def call(project, *arguments, **variables):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment() | variables, text=True, check=False,
        capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def catalog_command(project, *arguments):
    """Return the answer of ``kedro catalog``."""
    return yaml.safe_load(call(project, "-m", "kedro", "catalog", *arguments, "--env=smoke"))


@pytest.mark.nightly
def test_the_package_has_every_file_and_runs_in_an_empty_folder(project, tmp_path):
    (project / "LICENSE").write_text((PROJECT / "LICENSE").read_text())
    (project / "conf/local").mkdir(exist_ok=True)
    (project / "conf/local/credentials.yml").write_text("secret: 1\n")
    call(project, "-m", "kedro", "package")
    (wheel,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("deep_interest/")}
        archive.extractall(tmp_path / "site")
    folder = PROJECT / "src"
    files = {
        str(file.relative_to(folder))
        for file in (folder / "deep_interest").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == files
    subprocess.run(
        ["tar", "-xzf", project / "dist/conf-deep_interest.tar.gz", "-C", tmp_path], check=True, timeout=60
    )
    assert not (tmp_path / "conf/local/credentials.yml").exists()
    call(
        tmp_path, "-m", "deep_interest", f"--pipelines={MODEL}", "--env=smoke",
        PYTHONPATH=str(tmp_path / "site"), DEEP_INTEREST_ENGINE="plain",
    )  # fmt: skip
    table = pd.read_csv(tmp_path / CSV)
    assert table["gauc"].tolist() == pytest.approx(results(project, "simulated/popularity")["gauc"].tolist())


@pytest.mark.nightly
def test_the_tasks_of_an_airflow_dag_give_the_table_of_a_run(project, tmp_path):
    copy = copy_project(tmp_path / "project")
    call(copy, "-m", "kedro", "airflow", "create", f"--pipelines={MODEL}", "--env=smoke", "--group-by=memory")
    (dag,) = (copy / "airflow_dags").iterdir()
    (copy / "airflow").mkdir()
    (copy / "airflow/__init__.py").touch()
    (copy / "airflow/sdk.py").write_text(AIRFLOW)
    call(copy, "-c", f"import runpy, sys; sys.path.insert(0, '.'); runpy.run_path({str(dag)!r})")
    pd.testing.assert_frame_equal(
        results(copy, "simulated/popularity"), results(project, "simulated/popularity")
    )


@pytest.mark.nightly
def test_ipython_has_the_catalog_the_pipelines_and_the_session(project, tmp_path):
    output = call(project, "-m", "IPython", "-c", SHELL, IPYTHONDIR=str(tmp_path))
    env, nodes, models, session_env = json.loads(output.splitlines()[-1])
    assert (env, session_env) == ("smoke", "smoke")
    assert nodes > 4
    assert "popularity" in models


@pytest.mark.nightly
def test_the_commands_of_the_catalog_know_its_patterns(project):
    patterns = catalog_command(project, "list-patterns")
    assert {"{dataset}.{model}.results", "{dataset}.samples", "{dataset}.{model}.checkpoint"} <= set(patterns)
    described = catalog_command(project, "describe-datasets", "-p", MODEL)[MODEL]
    types = {name: type_ for kind in described.values() if kind for type_, names in kind.items() for name in names}  # fmt: skip
    assert types[f"{MODEL}.results"].endswith("CSVDataset")
    resolved = catalog_command(project, "resolve-patterns", "-p", MODEL)
    assert resolved[f"{MODEL}.results"]["filepath"].endswith(CSV)
    assert [name for name, entry in resolved.items() if {"args", "arguments", "kwargs"} & set(entry)] == []
